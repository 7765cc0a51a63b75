package main

import (
	"strconv"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"tributary.dev/benchmarks/peers/internal/catalogue"
	"tributary.dev/benchmarks/peers/internal/rawgrpc"
)

// maxResponseBytes keeps well below the 4 MiB that gRPC clients take by default.
const maxResponseBytes = 1 << 20

// subscriber is one stream: what it asked for (guarded by the store's lock), and what is to be
// sent (guarded by its own). Latest wins: a resource that changes twice before it is sent, is sent once.
type subscriber struct {
	asked bool
	glob  bool
	names map[int]struct{}

	mu      sync.Mutex
	dirty   map[int]struct{}
	order   []int // of dirty: what was asked or changed first is sent first
	removed []string
	wake    chan struct{}
}

func (sub *subscriber) wants(index int) bool {
	if sub.glob {
		return true
	}
	_, ok := sub.names[index]
	return ok
}

func (sub *subscriber) markDirty(index int) {
	sub.mu.Lock()
	if _, ok := sub.dirty[index]; !ok {
		sub.dirty[index] = struct{}{}
		sub.order = append(sub.order, index)
	}
	sub.mu.Unlock()
	sub.signal()
}

func (sub *subscriber) signal() {
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

func (s *store) serve(stream grpc.ServerStream) error {
	sub := &subscriber{names: map[int]struct{}{}, dirty: map[int]struct{}{}, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.streams[sub] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, sub)
		s.mu.Unlock()
	}()
	go s.send(sub, stream)
	for {
		var in rawgrpc.In
		if err := stream.RecvMsg(&in); err != nil {
			return nil
		}
		var request discoveryv3.DeltaDiscoveryRequest
		err := proto.Unmarshal(in.Bytes(), &request)
		in.Free()
		if err != nil {
			return err
		}
		s.apply(sub, &request)
	}
}

func (s *store) apply(sub *subscriber, request *discoveryv3.DeltaDiscoveryRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	glob := s.naming.Wildcard()
	for _, name := range request.GetResourceNamesUnsubscribe() {
		if name == glob {
			sub.glob = false
		} else if index, ok := s.index(name); ok {
			delete(sub.names, index)
		}
	}
	// A first request without names subscribes the wildcard.
	isFirst := !sub.asked && request.GetTypeUrl() == catalogue.TypeURL
	sub.asked = sub.asked || isFirst
	subscribed := request.GetResourceNamesSubscribe()
	if isFirst && len(subscribed) == 0 && s.naming.OldStyle {
		subscribed = []string{glob}
	}
	for _, name := range subscribed {
		index, known := s.index(name)
		switch {
		case request.GetTypeUrl() == catalogue.TypeURL && name == glob:
			sub.glob = true
			for i := range s.resources {
				s.offer(sub, i, request)
			}
		case request.GetTypeUrl() == catalogue.TypeURL && known:
			sub.names[index] = struct{}{}
			s.offer(sub, index, request)
		default:
			sub.mu.Lock()
			sub.removed = append(sub.removed, name)
			sub.mu.Unlock()
			sub.signal()
		}
	}
}

// offer sends a resource unless the client said that it has this version.
func (s *store) offer(sub *subscriber, index int, request *discoveryv3.DeltaDiscoveryRequest) {
	known := request.GetInitialResourceVersions()
	if len(known) > 0 && known[s.naming.Name(index)] == s.resources[index].version {
		return
	}
	sub.markDirty(index)
}

// send writes what is dirty, as fast as the client's flow control lets it.
func (s *store) send(sub *subscriber, stream grpc.ServerStream) {
	nonce := 0
	for {
		select {
		case <-stream.Context().Done():
			return
		case <-sub.wake:
		}
		sub.mu.Lock()
		indexes := sub.order
		sub.order = nil
		clear(sub.dirty)
		removed := sub.removed
		sub.removed = nil
		sub.mu.Unlock()
		for len(indexes) > 0 || len(removed) > 0 {
			batch := indexes[:min(len(indexes), maxResponseBytes/1200)]
			indexes = indexes[len(batch):]
			nonce++
			if stream.SendMsg(response(s.take(batch), removed, nonce)) != nil {
				return
			}
			removed = nil
		}
	}
}

func response(fields [][]byte, removed []string, nonce int) *rawgrpc.Out {
	tail := protowire.AppendTag(nil, 4, protowire.BytesType)
	tail = protowire.AppendString(tail, catalogue.TypeURL)
	tail = protowire.AppendTag(tail, 5, protowire.BytesType)
	tail = protowire.AppendString(tail, strconv.Itoa(nonce))
	for _, name := range removed {
		tail = protowire.AppendTag(tail, 6, protowire.BytesType)
		tail = protowire.AppendString(tail, name)
	}
	return &rawgrpc.Out{Pieces: append(fields, tail)}
}
