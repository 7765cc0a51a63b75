package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
)

// nodeSnapshots is the library's SnapshotCache, which selects resources by the id of the Node, as most
// control planes do for old-style names. It sends no response to a node without a snapshot.
type nodeSnapshots struct {
	cache.SnapshotCache
	versions atomic.Int64
}

// For ADS the library waits with a SotW response until all names of the snapshot are requested on the
// stream. A client with a stream per type may never request all.
func newNodeSnapshots(isADS bool) *nodeSnapshots {
	return &nodeSnapshots{SnapshotCache: cache.NewSnapshotCache(isADS, cache.IDHash{}, nil)}
}

func (n *nodeSnapshots) set(node string, byType map[string]map[string]types.Resource) error {
	resources := make(map[resource.Type][]types.Resource)
	for typeURL, named := range byType {
		for _, each := range named {
			resources[typeURL] = append(resources[typeURL], each)
		}
	}
	snapshot, err := cache.NewSnapshot(strconv.FormatInt(n.versions.Add(1), 10), resources)
	if err != nil {
		return err
	}
	return n.SetSnapshot(context.Background(), node, snapshot)
}

func (c *controlPlane) putSnapshot(r *http.Request) (any, error) {
	node := r.URL.Query().Get("node")
	if node == "" {
		return nil, errors.New("a snapshot without a node id")
	}
	byType, err := decodeAll(r.Body)
	if err != nil {
		return nil, err
	}
	return map[string]any{}, c.snapshots.set(node, byType)
}
