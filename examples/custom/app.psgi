# A PSGI application: a function of the request that returns status, headers and body.
use strict;
use warnings;

sub {
    my $env = shift;
    my ($method, $path) = @$env{qw(REQUEST_METHOD PATH_INFO)};
    kill KILL => $$ if "$method $path" eq 'POST /crash';
    my $text = "Process $$ of Perl $^V answered $path\n";
    if ($method eq 'POST') {
        my $length = 0;
        while (my $read = $env->{'psgi.input'}->read(my $piece, 65536)) { $length += $read }
        $text = "$length bytes\n";
    }
    return [200, ['Content-Type' => 'text/plain; charset=utf-8', 'Content-Length' => length $text], [$text]];
};
