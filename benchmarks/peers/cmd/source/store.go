package main

import (
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary.dev/benchmarks/peers/internal/catalogue"
)

// resource is one entry: `field` is a DeltaDiscoveryResponse.resources field, tag and all.
type resource struct {
	version string
	field   []byte
}

type store struct {
	naming catalogue.Naming

	mu        sync.Mutex
	resources []resource
	streams   map[*subscriber]struct{}
}

func newStore(naming catalogue.Naming, count int, origin byte) *store {
	s := &store{
		naming:    naming,
		resources: make([]resource, count),
		streams:   map[*subscriber]struct{}{},
	}
	for i := range s.resources {
		s.resources[i] = s.encode(i, catalogue.Marker(0, 0, origin))
	}
	return s
}

// encode makes the entry of one resource. The marker doubles as the version: it is as unique.
func (s *store) encode(index int, marker string) resource {
	name := s.naming.Name(index)
	body, err := anypb.New(catalogue.Body(name, marker))
	if err != nil {
		panic(err)
	}
	encoded, err := proto.Marshal(&discoveryv3.Resource{Name: name, Version: marker, Resource: body})
	if err != nil {
		panic(err)
	}
	field := protowire.AppendTag(nil, 2, protowire.BytesType)
	return resource{version: marker, field: protowire.AppendBytes(field, encoded)}
}

func (s *store) change(index int, marker string) {
	next := s.encode(index, marker)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resources[index] = next
	for stream := range s.streams {
		if stream.wants(index) {
			stream.markDirty(index)
		}
	}
}

// take reads the current fields of some resources.
func (s *store) take(indexes []int) [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	fields := make([][]byte, len(indexes))
	for i, index := range indexes {
		fields[i] = s.resources[index].field
	}
	return fields
}

// index finds a name of this catalogue.
func (s *store) index(name string) (int, bool) {
	index, ok := catalogue.Index(name)
	if !ok || index >= len(s.resources) || name != s.naming.Name(index) {
		return 0, false
	}
	return index, true
}
