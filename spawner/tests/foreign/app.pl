sub {
    my ($env, $body) = @_;
    return "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\n$env->{REQUEST_METHOD} $env->{PATH_INFO}: " . reverse $body;
}
