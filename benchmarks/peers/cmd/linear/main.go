// linear is go-control-plane's LinearCache as an ADS server, delta and state of the world: the peer to be compared with.
package main

import (
	"context"
	"flag"
	"log"
	"net"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"

	"tributary.dev/benchmarks/peers/internal/catalogue"
	"tributary.dev/benchmarks/peers/internal/control"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address of the ADS server")
	resources := flag.Int("resources", 1000, "size of the catalogue")
	authority := flag.String("authority", "bench", "authority of the names")
	oldStyle := flag.Bool("old-style", false, "names without xdstp://")
	flag.Parse()
	naming := catalogue.Naming{Authority: *authority, OldStyle: *oldStyle}

	initial := make(map[string]types.Resource, *resources)
	for i := range *resources {
		name := naming.Name(i)
		initial[name] = catalogue.Body(name, catalogue.Marker(0, 0, 'A'))
	}
	linear := cache.NewLinearCache(catalogue.TypeURL, cache.WithInitialResources(initial))

	serving, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	controlling, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	go control.Serve(controlling, func(index int, marker string) {
		name := naming.Name(index)
		if err := linear.UpdateResource(name, catalogue.Body(name, marker)); err != nil {
			log.Fatal(err)
		}
	})
	grpcServer := grpc.NewServer()
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(
		grpcServer, server.NewServer(context.Background(), linear, nil))
	control.AnnounceReady(serving, controlling)
	log.Fatal(grpcServer.Serve(serving))
}
