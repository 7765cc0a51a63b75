package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	// The token of a proxy is this prefix and its node id.
	consulTokenPrefix = "secret-of-"
	// The oldest minor version of Envoy 1 that is served.
	consulOldestEnvoy = 33
)

// serveLikeConsul behaves like Consul's server (agent/xds/delta.go, read in 2026):
//   - delta ADS only;
//   - the token in x-consul-token must exist (UNAUTHENTICATED) and be the proxy's (PERMISSION_DENIED);
//   - it refuses versions of Envoy that are too old, as user_agent_build_version tells; a client
//     without one is served;
//   - of each type one response is in flight: it waits for its ACK or NACK. Listeners, routes and
//     removals of clusters also wait for the ACKs of clusters and assignments;
//   - a wildcard is a first request without names; the name "*" is a name that does not exist;
//   - it never removes a resource that was subscribed by name, nor the last resource of a type;
//   - after a cluster or listener it sends the assignments and routes below it again;
//   - no response to names that it does not know, except an empty first one of a type.
//
// The scope of the resources is a node id. A proxy without content gets no response.
func serveLikeConsul(to *grpc.Server, _ *http.ServeMux, state *content) {
	discovery.RegisterAggregatedDiscoveryServiceServer(to, adsOf{delta: func(stream deltaStream) error {
		session := newConsulSession(state, stream)
		return converse(state, stream.Recv, session.take, session.sendNext)
	}})
}

func admitLikeConsul(ctx context.Context, node *core.Node) (*admitted, error) {
	version := node.GetUserAgentBuildVersion().GetVersion()
	if version != nil && version.GetMajorNumber() <= 1 && version.GetMinorNumber() < consulOldestEnvoy {
		return nil, status.Errorf(codes.InvalidArgument, "Envoy %d.%d.%d is too old and is not supported by Consul",
			version.GetMajorNumber(), version.GetMinorNumber(), version.GetPatch())
	}
	headers, _ := metadata.FromIncomingContext(ctx)
	token := strings.Join(headers.Get("x-consul-token"), ",")
	owner, isKnown := strings.CutPrefix(token, consulTokenPrefix)
	switch {
	case token != "" && !isKnown:
		return nil, status.Error(codes.Unauthenticated, "unauthenticated: ACL not found")
	case owner != node.GetId():
		return nil, status.Error(codes.PermissionDenied, "permission denied")
	}
	return &admitted{scope: node.GetId(), tailor: untailored}, nil
}

// consulType is one type of a session.
type consulType struct {
	typeURL string
	// With a resource of this type, the resource of the same name of `child` is sent again. (Consul finds
	// the names of routes inside the listeners.)
	child        *consulType
	isRegistered bool
	isWildcard   bool
	hasAnswered  bool
	subscribed   map[string]struct{}
	// Versions that the client has ACKed.
	versions map[string]string
	// The response in flight: new versions by name, "" for removals.
	nonce   string
	pending map[string]string
}

type consulSession struct {
	content *content
	stream  deltaStream
	client  *admitted
	types   map[string]*consulType
	nonces  int
}

func newConsulSession(state *content, stream deltaStream) *consulSession {
	session := &consulSession{content: state, stream: stream, types: make(map[string]*consulType)}
	for _, typeURL := range makeBeforeBreak {
		session.types[typeURL] = &consulType{typeURL: typeURL, subscribed: make(map[string]struct{}), versions: make(map[string]string)}
	}
	session.types[clusterType].child = session.types[assignmentType]
	session.types[listenerType].child = session.types[routeType]
	return session
}

func (s *consulSession) take(request *discovery.DeltaDiscoveryRequest) error {
	if s.client == nil {
		client, err := admitFirst(s.stream.Context(), admitLikeConsul, request.GetNode())
		if err != nil {
			return err
		}
		s.client = client
	}
	if request.GetTypeUrl() == "" {
		return status.Error(codes.InvalidArgument, "type URL is required for ADS")
	}
	// Other types are ignored.
	if of := s.types[request.GetTypeUrl()]; of != nil {
		if isNack := of.take(request); isNack {
			return nil
		}
	}
	return s.sendNext()
}

// take reports whether the request was a NACK.
func (t *consulType) take(request *discovery.DeltaDiscoveryRequest) bool {
	isFirst := !t.isRegistered
	if isFirst {
		t.isRegistered, t.isWildcard = true, len(request.GetResourceNamesSubscribe()) == 0
	}
	if nonce := request.GetResponseNonce(); nonce != "" && nonce == t.nonce {
		if request.GetErrorDetail() == nil {
			t.ack()
		}
		t.nonce, t.pending = "", nil
	}
	if request.GetErrorDetail() != nil {
		return true
	}
	if isFirst {
		for name, version := range request.GetInitialResourceVersions() {
			t.versions[name] = version
			t.subscribed[name] = struct{}{}
		}
	}
	for _, name := range request.GetResourceNamesSubscribe() {
		t.subscribed[name] = struct{}{}
		if _, isHeld := t.versions[name]; isHeld {
			t.versions[name] = ""
		}
	}
	for _, name := range request.GetResourceNamesUnsubscribe() {
		delete(t.subscribed, name)
	}
	return false
}

func (t *consulType) ack() {
	t.hasAnswered = true
	for name, version := range t.pending {
		if version == "" {
			delete(t.versions, name)
		} else {
			t.versions[name] = version
		}
	}
}

var consulSteps = []struct {
	typeURL           string
	upserts, removals bool
}{
	{clusterType, true, false},
	{assignmentType, true, false},
	{listenerType, true, true},
	{routeType, true, true},
	{clusterType, false, true},
}

// sendNext sends what is due and need not wait for an ACK.
func (s *consulSession) sendNext() error {
	if s.client == nil || !s.content.isKnown(s.client.scope) {
		return nil
	}
	for _, step := range consulSteps {
		of := s.types[step.typeURL]
		isChild := of.typeURL == listenerType || of.typeURL == routeType
		if isChild && (s.types[clusterType].nonce != "" || s.types[assignmentType].nonce != "") {
			return nil
		}
		response := s.responseOf(of, step.upserts, step.removals)
		if response == nil {
			continue
		}
		s.nonces++
		of.nonce = fmt.Sprintf("%08x", s.nonces)
		response.Nonce = of.nonce
		if err := s.stream.Send(response); err != nil {
			return err
		}
		for name := range of.pending {
			if of.child == nil {
				break
			}
			if _, isHeld := of.child.versions[name]; isHeld {
				of.child.versions[name] = ""
			}
		}
	}
	return nil
}

// responseOf returns what is due for a type, or nil, and notes it as pending.
func (s *consulSession) responseOf(of *consulType, upserts, removals bool) *discovery.DeltaDiscoveryResponse {
	resources, _ := s.content.of(s.client.scope, of.typeURL)
	if !of.isRegistered || of.nonce != "" || len(resources) == 0 {
		return nil
	}
	response := &discovery.DeltaDiscoveryResponse{TypeUrl: of.typeURL}
	pending := make(map[string]string)
	if upserts {
		for _, name := range picked(resources, of.subscribed, of.isWildcard) {
			sum := sha256.Sum256(resources[name].GetValue())
			version := hex.EncodeToString(sum[:])
			if of.versions[name] == version {
				continue
			}
			pending[name] = version
			response.Resources = append(response.Resources, &discovery.Resource{Name: name, Version: version, Resource: resources[name]})
		}
	}
	if removals && of.isWildcard {
		for name := range of.versions {
			if resources[name] == nil {
				pending[name] = ""
				response.RemovedResources = append(response.RemovedResources, name)
			}
		}
	}
	isFirst := upserts && !of.hasAnswered
	if len(pending) == 0 && !isFirst {
		return nil
	}
	of.pending = pending
	return response
}
