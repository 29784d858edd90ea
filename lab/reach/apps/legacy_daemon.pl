# A service of Debian's libjson-rpc-perl on the port that is given, which lists nothing: perl legacy_daemon.pl PORT
package Echoing;
use strict;
use warnings;
use base qw(JSON::RPC::Legacy::Procedure);

sub echo : Public {
    my ($server, @given) = @_;
    return $given[0];
}

package main;
use JSON::RPC::Legacy::Server::Daemon;

$INC{'Echoing.pm'} = 1;
JSON::RPC::Legacy::Server::Daemon->new(LocalAddr => '127.0.0.1', LocalPort => $ARGV[0], ReuseAddr => 1)
    ->dispatch({'/jsonrpc/API' => 'Echoing'})->handle();
