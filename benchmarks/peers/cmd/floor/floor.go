package main

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"tributary.dev/benchmarks/peers/internal/catalogue"
	"tributary.dev/benchmarks/peers/internal/rawgrpc"
)

// maxResponseBytes is a size that clients accept.
const maxResponseBytes = 2 << 20

type floor struct {
	naming     catalogue.Naming
	sotw       bool
	head, tail []byte

	mu sync.Mutex
	// fields are `resources` fields of a response, tag and all.
	fields    [][]byte
	wildcards map[*subscriber]struct{}
	watchers  map[int]map[*subscriber]struct{}
}

func newFloor(naming catalogue.Naming, sotw bool, count int) *floor {
	f := &floor{
		naming: naming, sotw: sotw,
		tail:      protowire.AppendString(protowire.AppendTag(nil, 4, protowire.BytesType), catalogue.TypeURL),
		fields:    make([][]byte, count),
		wildcards: map[*subscriber]struct{}{},
		watchers:  map[int]map[*subscriber]struct{}{},
	}
	if sotw {
		f.head = protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "1")
	}
	for i := range f.fields {
		f.fields[i] = f.encode(i, catalogue.Marker(0, 0, 'A'))
	}
	return f
}

// encode prepares a resource: a Resource without a version in delta, an Any in state of the world.
func (f *floor) encode(index int, marker string) []byte {
	name := f.naming.Name(index)
	body, err := anypb.New(catalogue.Body(name, marker))
	if err != nil {
		panic(err)
	}
	var message proto.Message = body
	if !f.sotw {
		message = &discoveryv3.Resource{Name: name, Resource: body}
	}
	encoded, err := proto.Marshal(message)
	if err != nil {
		panic(err)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), encoded)
}

func (f *floor) change(index int, marker string) {
	field := f.encode(index, marker)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fields[index] = field
	for sub := range f.wildcards {
		sub.push([][]byte{field})
	}
	for sub := range f.watchers[index] {
		sub.push([][]byte{field})
	}
}

// subscribe sends what the names have now, and registers the stream for their changes.
func (f *floor) subscribe(sub *subscriber, names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := make([][]byte, 0, len(names))
	for _, name := range names {
		if strings.HasSuffix(name, "*") {
			f.wildcards[sub] = struct{}{}
			pushAll(sub, f.fields)
			continue
		}
		index, ok := catalogue.Index(name)
		if !ok || index >= len(f.fields) {
			continue
		}
		if f.watchers[index] == nil {
			f.watchers[index] = map[*subscriber]struct{}{}
		}
		f.watchers[index][sub] = struct{}{}
		sub.indexes = append(sub.indexes, index)
		wanted = append(wanted, f.fields[index])
	}
	pushAll(sub, wanted)
}

// pushAll splits the fields into responses of a size that clients accept.
func pushAll(sub *subscriber, fields [][]byte) {
	from, bytes := 0, 0
	for i, field := range fields {
		bytes += len(field)
		if bytes > maxResponseBytes || i == len(fields)-1 {
			// A copy: the catalogue changes while this waits.
			sub.push(slices.Clone(fields[from : i+1]))
			from, bytes = i+1, 0
		}
	}
}

func (f *floor) forget(sub *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.wildcards, sub)
	for _, index := range sub.indexes {
		delete(f.watchers[index], sub)
	}
}

func (f *floor) serve(stream grpc.ServerStream) error {
	sub := &subscriber{wake: make(chan struct{}, 1)}
	defer f.forget(sub)
	go f.send(sub, stream)
	subscribed := false
	for {
		var in rawgrpc.In
		if err := stream.RecvMsg(&in); err != nil {
			return nil
		}
		// Each state-of-the-world ACK repeats all names.
		if f.sotw && subscribed {
			in.Free()
			continue
		}
		names := readNames(in.Bytes())
		in.Free()
		if len(names) > 0 {
			subscribed = true
			f.subscribe(sub, names)
		}
	}
}

// send writes what waits, as fast as the client's flow control lets it.
func (f *floor) send(sub *subscriber, stream grpc.ServerStream) {
	nonce := 0
	for {
		select {
		case <-stream.Context().Done():
			return
		case <-sub.wake:
		}
		for _, fields := range sub.takeAll() {
			nonce++
			if stream.SendMsg(f.response(fields, nonce)) != nil {
				return
			}
		}
	}
}

func (f *floor) response(fields [][]byte, nonce int) *rawgrpc.Out {
	pieces := make([][]byte, 0, len(fields)+3)
	if f.sotw {
		pieces = append(pieces, f.head)
	}
	pieces = append(append(pieces, fields...), f.tail)
	text := protowire.AppendString(protowire.AppendTag(nil, 5, protowire.BytesType), strconv.Itoa(nonce))
	return &rawgrpc.Out{Pieces: append(pieces, text)}
}

// subscriber is one stream with the responses that wait for it. They pile up without bound, as in
// the floors in Node: grpc-go's SendMsg blocks, and one client must not hold up the others.
type subscriber struct {
	indexes []int
	wake    chan struct{}

	mu      sync.Mutex
	waiting [][][]byte
}

func (sub *subscriber) push(fields [][]byte) {
	sub.mu.Lock()
	sub.waiting = append(sub.waiting, fields)
	sub.mu.Unlock()
	select {
	case sub.wake <- struct{}{}:
	default:
	}
}

func (sub *subscriber) takeAll() [][][]byte {
	sub.mu.Lock()
	defer sub.mu.Unlock()
	taken := sub.waiting
	sub.waiting = nil
	return taken
}

// readNames reads only the names of a request: field 3 of both kinds.
func readNames(message []byte) []string {
	var names []string
	for len(message) > 0 {
		number, kind, length := protowire.ConsumeTag(message)
		if length < 0 {
			return names
		}
		message = message[length:]
		if number == 3 && kind == protowire.BytesType {
			name, length := protowire.ConsumeString(message)
			if length < 0 {
				return names
			}
			names = append(names, name)
			message = message[length:]
			continue
		}
		length = protowire.ConsumeFieldValue(number, kind, message)
		if length < 0 {
			return names
		}
		message = message[length:]
	}
	return names
}
