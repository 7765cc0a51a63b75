// Package rawgrpc lets grpc-go carry messages as bytes, both ways, without decoding them.
package rawgrpc

import (
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
)

const service = "envoy.service.discovery.v3.AggregatedDiscoveryService"

const (
	delta = "DeltaAggregatedResources"
	sotw  = "StreamAggregatedResources"
)

// Method is the path of the benchmark's method: delta, or state of the world.
func Method(isSotw bool) string {
	return "/" + service + "/" + name(isSotw)
}

func name(isSotw bool) string {
	if isSotw {
		return sotw
	}
	return delta
}

// Out is a message to send: pieces that are written one after the other.
type Out struct{ Pieces [][]byte }

// In is a message that was received. Free it when it has been read.
type In struct{ buffer mem.Buffer }

// Bytes are valid until Free.
func (in *In) Bytes() []byte { return in.buffer.ReadOnlyData() }

// Free gives the memory back.
func (in *In) Free() { in.buffer.Free() }

// Codec carries Out and In.
type Codec struct{}

// Name says "proto", so that peers see an ordinary content type.
func (Codec) Name() string { return "proto" }

// Marshal passes the pieces on uncopied.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	out, ok := v.(*Out)
	if !ok {
		return nil, fmt.Errorf("rawgrpc: cannot send %T", v)
	}
	slices := make(mem.BufferSlice, len(out.Pieces))
	for i, piece := range out.Pieces {
		slices[i] = mem.SliceBuffer(piece)
	}
	return slices, nil
}

// Unmarshal makes one run of bytes of what came.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	in, ok := v.(*In)
	if !ok {
		return fmt.Errorf("rawgrpc: cannot receive into %T", v)
	}
	in.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
	return nil
}

// Register serves one method of ADS on a server that was made with ForceServerCodecV2(Codec{}).
func Register(server *grpc.Server, isSotw bool, handle func(grpc.ServerStream) error) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName:    name(isSotw),
			ServerStreams: true,
			ClientStreams: true,
			Handler:       func(_ any, stream grpc.ServerStream) error { return handle(stream) },
		}},
	}, struct{}{})
}
