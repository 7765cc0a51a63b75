package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// serveLikeContour is go-control-plane, arranged as Contour arranges it since version 1.29
// (internal/xdscache/v3/snapshot.go and internal/xds/v3/hash.go, read in 2026):
//   - all clients get the same content: the Node is not read;
//   - a snapshot, not in ADS mode, has all types but assignments; each change gives it a new version;
//   - assignments are in a cache of their own, which sends only those that changed;
//   - all services, and both flavours; Contour's own bootstrap has a state-of-the-world stream for each
//     subscription.
func serveLikeContour(to *grpc.Server, _ *http.ServeMux, state *content) {
	caches := newContourCaches()
	go func() {
		for version := 1; ; version++ {
			changed := state.next()
			if err := caches.take(state, strconv.Itoa(version)); err != nil {
				fmt.Fprintln(os.Stderr, "control-plane:", err)
			}
			<-changed
		}
	}()
	serveAllTypes(to, server.NewServer(context.Background(), caches.mux, nil))
}

const contourHash = "contour"

type constantHash struct{}

func (constantHash) ID(*core.Node) string { return contourHash }

type contourCaches struct {
	snapshots   cache.SnapshotCache
	assignments *cache.LinearCache
	mux         *cache.MuxCache
}

func newContourCaches() *contourCaches {
	snapshots := cache.NewSnapshotCache(false, constantHash{}, nil)
	assignments := cache.NewLinearCache(assignmentType)
	byType := map[string]cache.Cache{assignmentType: assignments}
	for _, typeURL := range []string{clusterType, listenerType, routeType, secretType} {
		byType[typeURL] = snapshots
	}
	return &contourCaches{snapshots: snapshots, assignments: assignments, mux: &cache.MuxCache{
		Caches:        byType,
		Classify:      func(request *discovery.DiscoveryRequest) string { return request.GetTypeUrl() },
		ClassifyDelta: func(request *cache.DeltaRequest) string { return request.GetTypeUrl() },
	}}
}

// take makes the content of the caches that of `state`.
func (c *contourCaches) take(state *content, version string) error {
	inSnapshot := make(map[string][]types.Resource)
	for typeURL, of := range c.mux.Caches {
		encoded, _ := state.of("", typeURL)
		named := make(map[string]types.Resource)
		for name, wrapped := range encoded {
			resource, err := wrapped.UnmarshalNew()
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			named[name] = resource
			inSnapshot[typeURL] = append(inSnapshot[typeURL], resource)
		}
		if of == cache.Cache(c.assignments) {
			if err := c.replaceAssignments(named); err != nil {
				return err
			}
			delete(inSnapshot, typeURL)
		}
	}
	snapshot, err := cache.NewSnapshot(version, inSnapshot)
	if err != nil {
		return err
	}
	return c.snapshots.SetSnapshot(context.Background(), contourHash, snapshot)
}

func (c *contourCaches) replaceAssignments(named map[string]types.Resource) error {
	var gone []string
	changed := make(map[string]types.Resource)
	known := c.assignments.GetResources()
	for name := range known {
		if named[name] == nil {
			gone = append(gone, name)
		}
	}
	for name, resource := range named {
		if before := known[name]; before == nil || !proto.Equal(before, resource) {
			changed[name] = resource
		}
	}
	if len(gone)+len(changed) == 0 {
		return nil
	}
	return c.assignments.UpdateResources(changed, gone)
}
