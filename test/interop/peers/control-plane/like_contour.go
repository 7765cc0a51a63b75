package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// serveLikeContour behaves like Contour's own server (internal/xds/v3/contour.go, read in 2026), on the
// streams of single types:
//   - all clients get the same content; it reads neither the Node nor nonces nor errors;
//   - it reads the next request of a stream only after it has sent a response, and sends one only
//     after a change: a client that adds a name to an open stream waits for the next change;
//   - after any change it sends all, also what has not changed;
//   - a requested route configuration or assignment that does not exist is sent empty.
//
// On ADS that server is UNIMPLEMENTED. Here ADS is served as a newer Contour does, whose server is
// go-control-plane: with a session that holds several types.
func serveLikeContour(to *grpc.Server, _ *http.ServeMux, state *content) {
	perTypeOf{sotw: func(stream sotwStream) error { return serveLockstep(state, stream) }}.register(to)
	admitAll := func(context.Context, *core.Node) (*admitted, error) { return &admitted{tailor: untailored}, nil }
	discovery.RegisterAggregatedDiscoveryServiceServer(to, adsOf{
		sotw: func(stream sotwStream) error { return serveSotw(state, sotwRules{admit: admitAll}, stream) },
	})
}

func serveLockstep(state *content, stream sotwStream) error {
	for sent := -1; ; {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		for {
			changed := state.next()
			resources, version := state.of("", request.GetTypeUrl())
			if version == sent {
				select {
				case <-changed:
					continue
				case <-stream.Context().Done():
					return stream.Context().Err()
				}
			}
			response := &discovery.DiscoveryResponse{TypeUrl: request.GetTypeUrl(), VersionInfo: strconv.Itoa(version), Nonce: strconv.Itoa(version)}
			response.Resources, err = contourResources(request, resources)
			if err == nil {
				err = stream.Send(response)
			}
			if err != nil {
				return err
			}
			sent = version
			break
		}
	}
}

func contourResources(request *discovery.DiscoveryRequest, resources map[string]*anypb.Any) ([]*anypb.Any, error) {
	names := request.GetResourceNames()
	if len(names) == 0 {
		names = picked(resources, nil, true)
	}
	var found []*anypb.Any
	for _, name := range names {
		if resource := resources[name]; resource != nil {
			found = append(found, resource)
			continue
		}
		var empty proto.Message
		switch request.GetTypeUrl() {
		case routeType:
			empty = &routev3.RouteConfiguration{Name: name}
		case assignmentType:
			empty = &endpointv3.ClusterLoadAssignment{ClusterName: name}
		default:
			continue
		}
		resource, err := anypb.New(empty)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		found = append(found, resource)
	}
	return found, nil
}
