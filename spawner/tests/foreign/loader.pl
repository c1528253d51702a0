# A loader of somebody else's. Its author knew Passenger's description of the handshake and of the `session` protocol only.
use strict;
use warnings;
use IO::Select;
use IO::Socket::UNIX;

$| = 1;
print "The greeting comes after this line.\n";
print "!> I have control 1.0\n";
(<STDIN> // '') eq "You have control 1.0\n" or die "unknown version\n";
my %option;
while (my $line = <STDIN>) {
    last if $line eq "\n";
    $option{$1} = $2 if $line =~ /^(\w+): (.*)$/;
}
my $app = do "$option{app_root}/$option{startup_file}";
if (!$app) {
    print "!> Error\n!> html: false\n!> \nThe application is broken: $@";
    exit 1;
}
my $path = "$option{generation_dir}/backends/perl.$$";
my $server = IO::Socket::UNIX->new(Local => $path, Listen => 10) or die "$path: $!";
print "!> Ready\n!> socket: main;unix:$path;session;1\n!> \n";

# A byte on standard input: no client is left, and none will come.
my $wait = IO::Select->new(\*STDIN, $server);
while (!grep { $_ == \*STDIN } $wait->can_read) {
    my $client = $server->accept or next;
    read $client, my $size, 4;
    read $client, my $head, unpack('N', $size);
    my %env = $head =~ /([^\0]*)\0([^\0]*)\0/g;
    if ($env{PASSENGER_CONNECT_PASSWORD} ne $option{connect_password}) {
        print $client "Status: 403 Forbidden\r\n\r\n";
    } elsif ($env{REQUEST_METHOD} eq 'PING') {
        print $client 'pong';
    } else {
        read $client, my $body, $env{CONTENT_LENGTH} || 0;
        print $client $app->(\%env, $body);
    }
    close $client;
}
print "Leaving.\n";
