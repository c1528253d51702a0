#!/usr/bin/perl
# Loads a PSGI application, and takes one request a connection (the protocol `session`).
use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;

$SIG{PIPE} = 'IGNORE';    # a client that leaves ends its own request only
our %key;                 # what the server says in the handshake
take_requests(load_application()) if !caller && handshake();

# The first part of the handshake, on standard input and output.
sub handshake {
    $| = 1;
    print "!> I have control 1.0\n";
    (<STDIN> // '') eq "You have control 1.0\n" or die "unknown version of the handshake\n";
    while (defined(my $line = <STDIN>)) {
        chomp $line;
        last if $line eq '';
        my ($name, $value) = split /: /, $line, 2;
        $key{$name} = $value;
    }
    return $0 = $key{process_title};
}

sub load_application {
    my $app = do "$key{app_root}/$key{startup_file}";
    return $app if ref $app eq 'CODE';
    print "!> Error\n!> \n", $@ || $! || "$key{startup_file} does not end with a function", "\n";
    exit 1;
}

sub listen_on {
    my $path = "$key{generation_dir}/backends/" . shift;
    my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 128);
    return ($listener // die("cannot listen on $path: $!\n"), $path);
}

# Passes each connection to a function. A byte on standard input, or its end, asks this process to leave.
sub each_connection {
    my ($listener, $path, $serve) = @_;
    my $ready = IO::Select->new(\*STDIN, $listener);
    while (!grep { $_ == \*STDIN } $ready->can_read) {
        my $client = $listener->accept or next;
        $serve->($client);
        close $client;
    }
    unlink $path;
}

sub take_requests {
    my $app = shift;
    my ($listener, $path) = listen_on("perl.$$");
    print "!> Ready\n!> socket: main;unix:$path;session;1\n!> \n";
    each_connection($listener, $path, sub { answer($app, shift) });
}

sub answer {
    my ($app, $client) = @_;
    return if read($client, my $length, 4) != 4;
    read($client, my $head, unpack 'N', $length);
    my @pairs = split /\0/, $head, -1;
    pop @pairs;    # after the last NUL
    my %env = @pairs;
    # Compared in constant time.
    return if ($key{connect_password} ^ $env{PASSENGER_CONNECT_PASSWORD} // '') =~ /[^\0]/;
    return print $client 'pong' if $env{REQUEST_METHOD} eq 'PING';
    my $answer = eval { $app->({%env, 'psgi.input' => $client, 'psgi.errors' => \*STDERR}) };
    warn $@ if $@;
    my ($status, $headers, $body) = @{$answer // [500, [], ["The application failed.\n"]]};
    print $client "Status: $status\r\n";
    while (my ($name, $value) = splice @$headers, 0, 2) { print $client "$name: $value\r\n" }
    print $client "\r\n", ref $body eq 'ARRAY' ? @$body : <$body>;
}

1;
