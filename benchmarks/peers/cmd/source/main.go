// source is the control plane behind the gateway under test: a delta ADS server for few clients
// and many resources. A change costs it the same however large the catalogue is, so that it is
// never what a benchmark measures. (A LinearCache would be: with 100,000 names in a wildcard each
// change costs it tens of milliseconds.)
package main

import (
	"flag"
	"log"
	"net"

	"google.golang.org/grpc"

	"tributary.dev/benchmarks/peers/internal/catalogue"
	"tributary.dev/benchmarks/peers/internal/control"
	"tributary.dev/benchmarks/peers/internal/rawgrpc"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the ADS server")
	resources := flag.Int("resources", 1000, "size of the catalogue")
	authority := flag.String("authority", "bench", "authority of the names")
	oldStyle := flag.Bool("old-style", false, "names without xdstp://")
	origin := flag.String("origin", "A", "one letter in every body that tells who made it")
	flag.Parse()

	store := newStore(catalogue.Naming{Authority: *authority, OldStyle: *oldStyle}, *resources, (*origin)[0])
	serving, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	controlling, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go control.Serve(controlling, store.change)
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec{}))
	rawgrpc.Register(server, false, store.serve)
	control.AnnounceReady(serving, controlling)
	log.Fatal(server.Serve(serving))
}
