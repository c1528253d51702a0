//! The normal form: equal for two pools that behave alike from now on.
//!
//! A pool's counters grow for ever, so no two of its states are equal. The normal form makes the space
//! finite:
//! - Times are relative to now; a past deadline is now.
//! - Processes are numbered by group and age.
//! - A generation is old or new; a restart file is a rank among those that were seen.
//! - The number of failures stops where the back-off stops growing.
//! - Totals are dropped.

use crate::application_pool::configuration::{ProcessId, Time};
use crate::application_pool::pool::{At, Client, Pool, Totals, Want};
use crate::application_pool::rules::Erratum::*;

impl Pool {
    /// Brings the pool into its normal form.
    pub fn normal(&mut self) {
        self.normal_and_names();
    }

    /// Brings the pool into its normal form. Returns the old identifiers: the first of them is 1 now.
    pub fn normal_and_names(&mut self) -> Vec<ProcessId> {
        self.events.clear();
        self.totals = Totals { spawned: self.count as u64, ..Totals::default() };
        self.orphans = self.orphans.min(1);
        self.normal_clients();
        self.normal_options();
        self.normal_times();
        self.normal_generations();
        self.normal_files();
        self.normal_order();
        self.renumber()
    }

    fn normal_clients(&mut self) {
        let tries_again = self.config().connects || self.written(E17);
        for client in &mut self.clients {
            if matches!(client.at, At::Out | At::InSession(_)) {
                (client.group, client.options, client.attempt, client.look) = (0, 0, 0, None);
            } else if !tries_again {
                (client.options, client.attempt, client.look) = (0, 0, None);
            }
            client.endless &= client.at.process().is_some();
        }
        self.normal_turns();
    }

    /// Replaces the turns of gets by their ranks. Without connecting, no get looks again, and turns do not matter.
    fn normal_turns(&mut self) {
        let connects = self.config().connects;
        let out = |client: &Client| matches!(client.at, At::Out | At::InSession(_));
        for client in &mut self.clients {
            client.waited = false;
            if out(client) || !connects {
                client.turn = 0;
            }
        }
        let mut turns: Vec<usize> = self.clients.iter().map(|client| client.turn).collect();
        turns.push(0);
        turns.sort_unstable();
        turns.dedup();
        for client in &mut self.clients {
            client.turn = turns.partition_point(|turn| *turn < client.turn);
        }
    }

    /// Replaces each process's options by the first set that gives the same behaviour.
    fn normal_options(&mut self) {
        let config = self.config.0.clone();
        if config.environment.options.is_empty() {
            return;
        }
        for process in &mut self.processes {
            process.options = config.alike(process.group, process.options);
        }
        for spawn in &mut self.spawns {
            let wanted = self.groups[spawn.group].spawning == Some(spawn.ticket);
            let matters = wanted || spawn.under_lock.is_some();
            spawn.options = if matters { config.alike(spawn.group, spawn.options) } else { 0 };
        }
    }

    fn normal_times(&mut self) {
        let config = self.config.0.clone();
        let (env, now) = (&config.environment, self.now);
        let idle = env.set_max_idle_time.iter().copied().chain([config.max_idle_time]).max();
        let mut idle: Time = idle.unwrap_or(0);
        // With E30, E40 or E5 as written, a process may be idle for longer than the limit.
        if idle > 0 && (self.written(E30) || self.written(E40) || self.written(E5)) {
            idle += 1;
        }
        let period = if self.written(E30) { self.max_idle_time.max(1) } else { 1 };
        let then = now % period;
        let remembers_start = self.written(E5);
        let longest = config.back_off.1;
        for process in &mut self.processes {
            let age = (now - process.start_time).min(longest);
            let unproved = age < longest && !process.detached;
            process.failures_before = process.failures_before.filter(|_| unproved);
            let ago = |time: Time| then - (now - time).min(idle);
            let inactive = process.is_idle() && !process.detached;
            process.last_used = if inactive { ago(process.last_used) } else { then };
            process.start_time = match inactive && remembers_start {
                true => ago(process.start_time),
                false if process.failures_before.is_some() => then - age,
                false => process.last_used,
            };
            let left = (process.drain_deadline - now).max(0);
            process.drain_deadline = then + if process.detached { left } else { 0 };
            let counts = config.options(process.group, process.options).max_requests > 0;
            if !counts || process.detached {
                process.processed = 0;
            }
        }
        let (written_e37, others) = (self.written(E37), self.groups.len() > 1);
        let same_from: Option<u32> = (1..64).find(|&n| self.back_off(n) == self.back_off(n + 1));
        for group in &mut self.groups {
            let until = group.back_off_until.map(|until| then + (until - now).max(0));
            group.back_off_until = until;
            // Without time, the deadline is never reached. Only other groups make room.
            let has_deadline = matches!(group.want, Want::First | Want::More) && others;
            let left = match env.time && has_deadline && !written_e37 {
                true => (group.room_due - now).max(0),
                false => config.drain_timeout,
            };
            group.room_due = then + left;
            group.failures = group.failures.min(same_from.unwrap_or(64));
        }
        for process in &mut self.processes {
            if let Some(failures) = &mut process.failures_before {
                *failures = (*failures).min(same_from.unwrap_or(64));
            }
        }
        if let Some(until) = &mut self.cleaner_sleeps_until {
            *until = then + (*until - now).max(0);
        }
        self.now = then;
    }

    fn normal_generations(&mut self) {
        for (index, group) in self.groups.iter_mut().enumerate() {
            let newest = u64::from(group.outdated > 0);
            for process in self.processes.iter_mut().filter(|process| process.group == index) {
                let outdated = process.generation < group.generation;
                let counts = !outdated && !process.detached;
                process.generation = if counts { newest } else { 0 };
            }
            group.generation = newest;
        }
    }

    fn normal_files(&mut self) {
        if !self.written(E22) {
            self.files_seen.fill(None);
        }
        let env = &self.config().environment;
        if !env.touch && !env.delete {
            return;
        }
        for dir in 0..self.files.len() {
            let config = self.config.0.clone();
            let mut times: Vec<&mut u64> = Vec::new();
            times.extend(self.files[dir].iter_mut());
            times.extend(self.files_seen[dir].iter_mut().flatten());
            for group in &mut self.groups {
                times.extend(group.seen[dir].iter_mut().flatten());
            }
            for client in &mut self.clients {
                if config.options(client.group, client.options).restart_dir == dir {
                    times.extend(client.look.iter_mut());
                }
            }
            let mut ranks: Vec<u64> = times.iter().map(|time| **time).collect();
            ranks.sort_unstable();
            ranks.dedup();
            for time in times {
                *time = ranks.partition_point(|rank| *rank < *time) as u64;
            }
        }
    }

    /// Sorts lists whose order has no effect.
    fn normal_order(&mut self) {
        let groups = &self.groups;
        self.by_surplus.sort_by_key(|&group| groups[group].surplus);
        if !self.config().environment.time {
            let clients = &self.clients;
            let first = |p: &ProcessId| clients.iter().position(|c| c.at.process() == Some(*p));
            self.draining.sort_by_key(first);
        }
    }

    /// Renumbers by group: attached processes by age, draining ones by deadline, then spawns in flight.
    fn renumber(&mut self) -> Vec<ProcessId> {
        let drains = |p: ProcessId| self.draining.iter().position(|&d| d == p);
        let key = |p: &crate::application_pool::pool::Process| {
            (
                p.group,
                p.detached,
                if p.detached { drains(p.identifier) } else { None },
                p.identifier,
            )
        };
        let mut processes = std::mem::take(&mut self.processes);
        processes.sort_by_key(key);
        let groups = &self.groups;
        self.spawns.sort_by_key(|spawn| {
            let unwanted = groups[spawn.group].spawning != Some(spawn.ticket);
            // Cancelled spawns are all alike.
            let ticket = if unwanted { 0 } else { spawn.ticket };
            (spawn.group, unwanted, ticket, spawn.replaces)
        });
        let identifiers = processes.iter().map(|process| process.identifier);
        let tickets = self.spawns.iter().map(|spawn| spawn.ticket);
        let names: Vec<ProcessId> = identifiers.chain(tickets).collect();
        self.last_identifier = names.len();

        // With E11 as written, a flag may name a spawn that has ended.
        let new = |id: &mut ProcessId| {
            *id = names.iter().position(|name| name == id).map_or(0, |at| at + 1);
        };
        processes.iter_mut().for_each(|process| new(&mut process.identifier));
        self.processes = processes;
        self.spawns.iter_mut().for_each(|spawn| new(&mut spawn.ticket));
        for group in &mut self.groups {
            group.processes.iter_mut().for_each(new);
            group.spawning.iter_mut().for_each(new);
        }
        for list in [&mut self.inactive_apps, &mut self.draining, &mut self.marked] {
            list.iter_mut().for_each(new);
        }
        for client in &mut self.clients {
            if let At::Connecting(process) | At::InSession(process) = &mut client.at {
                process.iter_mut().for_each(new);
            }
        }
        names
    }
}
