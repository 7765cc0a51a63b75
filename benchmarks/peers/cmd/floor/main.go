// floor is the cost of grpc-go alone: an ADS server that sends prepared bytes through a codec that
// passes them on. It does what the floors in Node do (benchmarks/floor/floor.ts): it has no versions,
// no merging and no resumes, and it ignores ACKs.
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
	sotw := flag.Bool("sotw", false, "state of the world instead of delta")
	flag.Parse()

	naming := catalogue.Naming{Authority: *authority, OldStyle: *oldStyle}
	floor := newFloor(naming, *sotw, *resources)
	serving, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	controlling, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go control.Serve(controlling, floor.change)
	server := grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec{}))
	rawgrpc.Register(server, *sotw, floor.serve)
	control.AnnounceReady(serving, controlling)
	log.Fatal(server.Serve(serving))
}
