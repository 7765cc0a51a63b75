package main

import (
	"context"

	cluster "github.com/envoyproxy/go-control-plane/envoy/service/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/service/endpoint/v3"
	listener "github.com/envoyproxy/go-control-plane/envoy/service/listener/v3"
	route "github.com/envoyproxy/go-control-plane/envoy/service/route/v3"
	runtime "github.com/envoyproxy/go-control-plane/envoy/service/runtime/v3"
	secret "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
)

// serveAllTypes registers go-control-plane's server as ADS and as the service of each type.
func serveAllTypes(to *grpc.Server, from server.Server) {
	discovery.RegisterAggregatedDiscoveryServiceServer(to, from)
	cluster.RegisterClusterDiscoveryServiceServer(to, from)
	endpoint.RegisterEndpointDiscoveryServiceServer(to, from)
	listener.RegisterListenerDiscoveryServiceServer(to, from)
	route.RegisterRouteDiscoveryServiceServer(to, from)
	secret.RegisterSecretDiscoveryServiceServer(to, from)
	runtime.RegisterRuntimeDiscoveryServiceServer(to, from)
}

// sotwStream and deltaStream are what the streams of all services have in common.
type sotwStream interface {
	Context() context.Context
	Send(*discovery.DiscoveryResponse) error
	Recv() (*discovery.DiscoveryRequest, error)
}

type deltaStream interface {
	Context() context.Context
	Send(*discovery.DeltaDiscoveryResponse) error
	Recv() (*discovery.DeltaDiscoveryRequest, error)
}

// adsOf serves ADS. A handler that is nil answers UNIMPLEMENTED.
type adsOf struct {
	discovery.UnimplementedAggregatedDiscoveryServiceServer
	sotw  func(sotwStream) error
	delta func(deltaStream) error
}

func (a adsOf) StreamAggregatedResources(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesServer) error {
	if a.sotw == nil {
		return a.UnimplementedAggregatedDiscoveryServiceServer.StreamAggregatedResources(stream)
	}
	return a.sotw(stream)
}

func (a adsOf) DeltaAggregatedResources(stream discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	if a.delta == nil {
		return a.UnimplementedAggregatedDiscoveryServiceServer.DeltaAggregatedResources(stream)
	}
	return a.delta(stream)
}
