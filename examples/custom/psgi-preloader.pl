#!/usr/bin/perl
# Loads a PSGI application once, and forks a process for each command on a socket (docs/preloaders.md).
use strict;
use warnings;
use POSIX ();

require(__FILE__ =~ s/psgi-preloader/psgi-loader/r);
our %key;
handshake();
my $app = load_application();
my ($listener, $path) = listen_on("preloader.$$");
print "!> Ready\n!> socket: unix:$path\n!> pid: $$\n!> \n";
each_connection($listener, $path, \&spawn);

sub spawn {
    my $client = shift;
    while (defined(my $line = <$client>)) { last if $line eq "\n" }
    my $between = fork // die "cannot fork: $!\n";
    return waitpid $between, 0 if $between;
    $between = $$;
    POSIX::_exit(0) if fork;
    # The server becomes the parent of this process, as soon as the one between has ended.
    select undef, undef, undef, 0.001 while getppid == $between;
    setpgrp;
    close $listener;
    open STDIN, '<&', $client and open STDOUT, '>&', $client or die "cannot take the connection: $!\n";
    close $client;
    print "OK\n$$\n";
    handshake();
    take_requests($app);
    POSIX::_exit(0);
}
