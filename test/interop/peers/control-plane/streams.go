package main

import (
	"encoding/json"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Modes: normal behaviour, and faults.
const (
	modeNormal          = "normal"
	modeSilent          = "silent"
	modeDieAfterFirst   = "die-after-first-response"
	modeUnimplemented   = "unimplemented"
	modeUnauthenticated = "unauthenticated"
	keptClosedStreams   = 200
	keptRequests        = 20
)

var refusals = map[string]error{
	modeUnimplemented:   status.Error(codes.Unimplemented, "unknown service envoy.service.discovery.v3.AggregatedDiscoveryService"),
	modeUnauthenticated: status.Error(codes.Unauthenticated, "the control plane does not know this client"),
}

func knownMode(mode string) bool {
	return refusals[mode] != nil || mode == modeNormal || mode == modeSilent || mode == modeDieAfterFirst
}

type nack struct {
	TypeURL string `json:"typeUrl"`
	Error   string `json:"error"`
}

// requestRecord is one request without its names.
type requestRecord struct {
	TypeURL string `json:"typeUrl"`
	HasNode bool   `json:"hasNode"`
	// SotW only.
	Version string `json:"version"`
	Nonce   string `json:"nonce"`
}

// typeRecord records the messages of one stream about one resource type.
type typeRecord struct {
	Requests int `json:"requests"`
	// Of the first request: the protocol allows them only there.
	InitialResourceVersions map[string]string `json:"initialResourceVersions"`
	// All lists so far, concatenated; for SotW `subscribed` is the last request's names.
	Subscribed   []string `json:"subscribed"`
	Unsubscribed []string `json:"unsubscribed"`
	// Current subscriptions.
	Subscriptions []string `json:"subscriptions"`
	Responses     int      `json:"responses"`
	Sent          int      `json:"sentResources"`
	Removed       int      `json:"sentRemovals"`
}

type streamRecord struct {
	ID        int      `json:"id"`
	Open      bool     `json:"open"`
	Method    string   `json:"method"`
	Peer      string   `json:"peer"`
	ClientSAN []string `json:"clientSans"`
	NodeID    string   `json:"nodeId"`
	// The latest Node (protobuf JSON) without its extensions, and their number.
	Node       json.RawMessage     `json:"node"`
	Extensions int                 `json:"extensions"`
	Nodes      int                 `json:"requestsWithNode"`
	Headers    map[string][]string `json:"headers"`
	// The status with which the server ended the stream; empty while it is open.
	Ended string `json:"ended"`
	// The last requests, oldest first.
	Recent    []requestRecord        `json:"recentRequests"`
	Requests  int                    `json:"requests"`
	Acks      int                    `json:"acks"`
	Nacks     []nack                 `json:"nacks"`
	Responses int                    `json:"responses"`
	Types     map[string]*typeRecord `json:"types"`
}

// streams records every ADS stream and applies the mode. It reads messages between gRPC and
// go-control-plane, so it also records requests that get no response.
type streams struct {
	mu      sync.Mutex
	mode    string
	opened  int
	refused int
	records []*recordedStream
	fetches []fetchRecord
}

type recordedStream struct {
	grpc.ServerStream
	owner  *streams
	record *streamRecord
	end    chan error
	// Set when a response was dropped: from then on go-control-plane's state of the client is wrong.
	muted bool
}

func (s *streams) setMode(mode string, endOpen bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mode = mode
	for _, each := range s.records {
		if endOpen || (each.muted && mode != modeSilent) {
			each.finish(status.Error(codes.Unavailable, "the control plane ends its streams"))
		}
	}
}

// intercept is a grpc.StreamServerInterceptor.
func (s *streams) intercept(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	recorded, err := s.open(stream, info.FullMethod)
	if err != nil {
		return err
	}
	var ended error
	defer func() { s.close(recorded, ended) }()
	done := make(chan error, 1)
	// The handler waits in a blocking receive, so it cannot be told to end. Returning from here ends
	// the RPC, which fails that receive.
	go func() { done <- handler(srv, recorded) }()
	select {
	case ended = <-done:
	case ended = <-recorded.end:
	}
	return ended
}

func (s *streams) open(stream grpc.ServerStream, method string) (*recordedStream, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := refusals[s.mode]; refusal != nil {
		s.refused++
		return nil, refusal
	}
	s.opened++
	record := &streamRecord{ID: s.opened, Open: true, Method: method, ClientSAN: []string{}, Nacks: []nack{}, Recent: []requestRecord{}, Types: map[string]*typeRecord{}}
	if headers, ok := metadata.FromIncomingContext(stream.Context()); ok {
		record.Headers = headers
	}
	if from, ok := peer.FromContext(stream.Context()); ok {
		record.Peer = from.Addr.String()
		if info, ok := from.AuthInfo.(credentials.TLSInfo); ok && len(info.State.PeerCertificates) > 0 {
			leaf := info.State.PeerCertificates[0]
			record.ClientSAN = append(record.ClientSAN, leaf.DNSNames...)
			for _, uri := range leaf.URIs {
				record.ClientSAN = append(record.ClientSAN, uri.String())
			}
		}
	}
	recorded := &recordedStream{ServerStream: stream, owner: s, record: record, end: make(chan error, 1)}
	s.records = append(s.records, recorded)
	if len(s.records) > keptClosedStreams {
		s.forgetOneClosed()
	}
	return recorded, nil
}

func (s *streams) forgetOneClosed() {
	for i, each := range s.records {
		if !each.record.Open {
			s.records = append(s.records[:i], s.records[i+1:]...)
			return
		}
	}
}

func (s *streams) close(stream *recordedStream, ended error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stream.record.close(ended)
}

// finish ends the stream. Its record is closed at once: the goroutine that ends the RPC may run later, and a test that
// waits for the next stream must not find this one. The caller holds the lock.
func (r *recordedStream) finish(err error) {
	r.record.close(err)
	select {
	case r.end <- err:
	default:
	}
}

func (r *streamRecord) close(ended error) {
	if r.Open {
		r.Open = false
		r.Ended = status.Code(ended).String()
	}
}

func (r *recordedStream) RecvMsg(message any) error {
	if err := r.ServerStream.RecvMsg(message); err != nil {
		return err
	}
	r.owner.mu.Lock()
	defer r.owner.mu.Unlock()
	switch request := message.(type) {
	case *discovery.DeltaDiscoveryRequest:
		r.record.request(request)
		of := r.record.ofType(request.GetTypeUrl())
		if of.Requests == 1 {
			of.InitialResourceVersions = request.GetInitialResourceVersions()
		}
		of.Subscribed = append(of.Subscribed, request.GetResourceNamesSubscribe()...)
		of.Unsubscribed = append(of.Unsubscribed, request.GetResourceNamesUnsubscribe()...)
		of.Subscriptions = changed(of.Subscriptions, request.GetResourceNamesSubscribe(), request.GetResourceNamesUnsubscribe())
	case *discovery.DiscoveryRequest:
		r.record.request(request)
		of := r.record.ofType(request.GetTypeUrl())
		of.Subscribed = append([]string{}, request.GetResourceNames()...)
		of.Subscriptions = of.Subscribed
	}
	return nil
}

func (r *recordedStream) SendMsg(message any) error {
	r.owner.mu.Lock()
	mode := r.owner.mode
	if mode == modeSilent {
		r.muted = true
		r.owner.mu.Unlock()
		return nil
	}
	r.record.response(message)
	r.owner.mu.Unlock()
	if err := r.ServerStream.SendMsg(message); err != nil {
		return err
	}
	if mode == modeDieAfterFirst {
		err := status.Error(codes.Unavailable, "the control plane died after a response")
		r.owner.mu.Lock()
		defer r.owner.mu.Unlock()
		r.finish(err)
		return err
	}
	return nil
}

// discoveryRequest holds the methods of both variants of requests.
type discoveryRequest interface {
	GetTypeUrl() string
	GetResponseNonce() string
	GetNode() *core.Node
}

func (r *streamRecord) request(request discoveryRequest) {
	r.Requests++
	r.ofType(request.GetTypeUrl()).Requests++
	refusal, version := "", ""
	switch variant := request.(type) {
	case *discovery.DeltaDiscoveryRequest:
		refusal = variant.GetErrorDetail().GetMessage()
	case *discovery.DiscoveryRequest:
		refusal, version = variant.GetErrorDetail().GetMessage(), variant.GetVersionInfo()
	}
	if node := request.GetNode(); node != nil {
		r.node(node)
	}
	if refusal != "" {
		r.Nacks = append(r.Nacks, nack{TypeURL: request.GetTypeUrl(), Error: refusal})
	} else if request.GetResponseNonce() != "" {
		r.Acks++
	}
	r.Recent = append(r.Recent, requestRecord{
		TypeURL: request.GetTypeUrl(), HasNode: request.GetNode() != nil, Version: version, Nonce: request.GetResponseNonce(),
	})
	r.Recent = r.Recent[max(0, len(r.Recent)-keptRequests):]
}

func (r *streamRecord) node(node *core.Node) {
	r.Nodes++
	r.NodeID = node.GetId()
	r.Extensions = len(node.GetExtensions())
	brief := proto.Clone(node).(*core.Node)
	brief.Extensions = nil
	if text, err := protojson.Marshal(brief); err == nil {
		r.Node = text
	}
}

func (r *streamRecord) response(message any) {
	r.Responses++
	switch response := message.(type) {
	case *discovery.DeltaDiscoveryResponse:
		of := r.ofType(response.GetTypeUrl())
		of.Responses++
		of.Sent += len(response.GetResources())
		of.Removed += len(response.GetRemovedResources())
	case *discovery.DiscoveryResponse:
		of := r.ofType(response.GetTypeUrl())
		of.Responses++
		of.Sent += len(response.GetResources())
	}
}

func (r *streamRecord) ofType(typeURL string) *typeRecord {
	found, ok := r.Types[typeURL]
	if !ok {
		found = &typeRecord{InitialResourceVersions: map[string]string{}, Subscribed: []string{}, Unsubscribed: []string{}, Subscriptions: []string{}}
		r.Types[typeURL] = found
	}
	return found
}

// changed returns names with subscribed added (each once) and unsubscribed deleted.
func changed(names, subscribed, unsubscribed []string) []string {
	set := make(map[string]struct{}, len(names)+len(subscribed))
	for _, name := range append(append([]string{}, names...), subscribed...) {
		set[name] = struct{}{}
	}
	for _, name := range unsubscribed {
		delete(set, name)
	}
	return mapKeys(set)
}
