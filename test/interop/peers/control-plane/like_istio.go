package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
)

// istioKey signs the tokens (HS256) that this look-alike accepts.
const istioKey = "the key of the istio look-alike"

// serveLikeIstio behaves like istiod (pilot/pkg/xds, read in 2026):
//   - it reads all of the Node's metadata, and ends the stream if it contains a null;
//   - the token of the client must be for the namespace and the account in the Node's metadata;
//   - it pushes everything with each change, without waiting for ACKs;
//   - its delta resources have no version, and it ignores the versions in initial_resource_versions;
//   - it gives no response when it knows none of the names of a request, to a name that is
//     subscribed again, and to requests that only unsubscribe;
//   - it drops a request with a stale nonce or an error, also its change of subscriptions.
//
// The resources of a namespace go to the proxies of the namespace. Clusters and listeners contain a
// hash of the metadata of the client, as istiod's content depends on any of its keys.
func serveLikeIstio(to *grpc.Server, _ *http.ServeMux, state *content) {
	discovery.RegisterAggregatedDiscoveryServiceServer(to, adsOf{
		sotw: func(stream sotwStream) error {
			return serveSotw(state, sotwRules{admit: admitLikeIstio, pushesUnchanged: true}, stream)
		},
		delta: func(stream deltaStream) error {
			session := &istioSession{content: state, stream: stream, watches: make(map[string]*istioWatch)}
			return converse(state, stream.Recv, session.take, session.push)
		},
	})
}

func admitLikeIstio(ctx context.Context, node *core.Node) (*admitted, error) {
	claims, err := istioClaims(ctx)
	if err != nil {
		return nil, status.Errorf(codes.Unauthenticated, "authentication failure: %v", err)
	}
	if containsNull(structpb.NewStructValue(node.GetMetadata())) {
		return nil, errors.New("cannot read the metadata of the node: null")
	}
	if len(strings.Split(node.GetId(), "~")) != 4 {
		return nil, status.Errorf(codes.InvalidArgument, "missing parts in the service node %q", node.GetId())
	}
	fields := node.GetMetadata().GetFields()
	namespace, account := fields["NAMESPACE"].GetStringValue(), fields["SERVICE_ACCOUNT"].GetStringValue()
	if claims.Namespace != namespace || (account != "" && claims.Account != account) {
		return nil, status.Errorf(codes.PermissionDenied, "authorization failed: %s/%s does not match %s/%s",
			claims.Namespace, claims.Account, namespace, account)
	}
	whole, err := json.Marshal(node.GetMetadata().AsMap())
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(whole)
	identity := hex.EncodeToString(sum[:])
	return &admitted{
		scope:  namespace,
		tailor: func(resource *anypb.Any) (*anypb.Any, error) { return stamped(resource, identity) },
	}, nil
}

type istioToken struct {
	Namespace string `json:"namespace"`
	Account   string `json:"account"`
	// Seconds since 1970.
	Expires int64 `json:"exp"`
}

func istioClaims(ctx context.Context) (claims istioToken, err error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	header := strings.Join(headers.Get("authorization"), ",")
	token, isBearer := strings.CutPrefix(header, "Bearer ")
	parts := strings.Split(token, ".")
	if !isBearer || len(parts) != 3 {
		return claims, errors.New("no bearer token")
	}
	mac := hmac.New(sha256.New, []byte(istioKey))
	mac.Write([]byte(parts[0] + "." + parts[1]))
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !hmac.Equal(signature, mac.Sum(nil)) {
		return claims, errors.New("the signature of the token is wrong")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err == nil {
		err = json.Unmarshal(body, &claims)
	}
	if err == nil && claims.Expires <= time.Now().Unix() {
		err = errors.New("the token has expired")
	}
	return claims, err
}

func containsNull(value *structpb.Value) bool {
	switch kind := value.GetKind().(type) {
	case *structpb.Value_NullValue:
		return true
	case *structpb.Value_ListValue:
		return slices.ContainsFunc(kind.ListValue.GetValues(), containsNull)
	case *structpb.Value_StructValue:
		for _, field := range kind.StructValue.GetFields() {
			if containsNull(field) {
				return true
			}
		}
	}
	return false
}

// stamped adds the identity to the metadata of a cluster or listener.
func stamped(resource *anypb.Any, identity string) (*anypb.Any, error) {
	var message interface {
		proto.Message
		GetMetadata() *core.Metadata
	}
	var set func(*core.Metadata)
	switch resource.GetTypeUrl() {
	case clusterType:
		cluster := &clusterv3.Cluster{}
		message, set = cluster, func(to *core.Metadata) { cluster.Metadata = to }
	case listenerType:
		listener := &listenerv3.Listener{}
		message, set = listener, func(to *core.Metadata) { listener.Metadata = to }
	default:
		return resource, nil
	}
	if err := proto.Unmarshal(resource.GetValue(), message); err != nil {
		return nil, err
	}
	if message.GetMetadata() == nil {
		set(&core.Metadata{})
	}
	if message.GetMetadata().FilterMetadata == nil {
		message.GetMetadata().FilterMetadata = make(map[string]*structpb.Struct)
	}
	message.GetMetadata().FilterMetadata["look-alike"] = &structpb.Struct{Fields: map[string]*structpb.Value{
		"identity": structpb.NewStringValue(identity),
	}}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(message)
	return &anypb.Any{TypeUrl: resource.GetTypeUrl(), Value: value}, err
}

type istioWatch struct {
	// Names subscribed; with all, names that the client has.
	names map[string]struct{}
	all   bool
	nonce string
}

// istioSession is one delta stream.
type istioSession struct {
	content *content
	stream  deltaStream
	client  *admitted
	watches map[string]*istioWatch
	nonces  int
}

func (s *istioSession) take(request *discovery.DeltaDiscoveryRequest) error {
	if s.client == nil {
		client, err := admitFirst(s.stream.Context(), admitLikeIstio, request.GetNode())
		if err != nil {
			return err
		}
		s.client = client
	}
	if request.GetErrorDetail() != nil {
		return nil
	}
	typeURL, subscribed := request.GetTypeUrl(), setOf(request.GetResourceNamesSubscribe())
	watch := s.watches[typeURL]
	isFirst := watch == nil
	if isFirst {
		watch = &istioWatch{names: setOf(mapKeys(request.GetInitialResourceVersions())), all: len(subscribed) == 0}
		s.watches[typeURL] = watch
	} else if request.GetResponseNonce() != "" && request.GetResponseNonce() != watch.nonce {
		return nil
	}
	if _, isWildcard := subscribed["*"]; isWildcard {
		watch.all = true
		delete(subscribed, "*")
	}
	added := make(map[string]struct{})
	for name := range subscribed {
		if _, isKnown := watch.names[name]; !isKnown || isFirst {
			added[name] = struct{}{}
		}
		watch.names[name] = struct{}{}
	}
	for _, name := range request.GetResourceNamesUnsubscribe() {
		delete(watch.names, name)
	}
	if watch.all && isFirst {
		return s.answer(typeURL, watch.names)
	}
	if len(added) == 0 {
		return nil
	}
	return s.answer(typeURL, added)
}

func (s *istioSession) push() error {
	for _, typeURL := range inOrder(mapKeys(s.watches)) {
		if err := s.answer(typeURL, s.watches[typeURL].names); err != nil {
			return err
		}
	}
	return nil
}

// answer sends those of `names` that exist, all of them for a wildcard, and removes the others.
func (s *istioSession) answer(typeURL string, names map[string]struct{}) error {
	watch := s.watches[typeURL]
	resources, version := s.content.of(s.client.scope, typeURL)
	found := picked(resources, names, watch.all)
	if len(found) == 0 && !watch.all {
		return nil
	}
	s.nonces++
	watch.nonce = strconv.Itoa(s.nonces)
	response := &discovery.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: watch.nonce, SystemVersionInfo: strconv.Itoa(version)}
	for _, name := range found {
		resource, err := s.client.tailor(resources[name])
		if err != nil {
			return err
		}
		response.Resources = append(response.Resources, &discovery.Resource{Name: name, Resource: resource})
	}
	for name := range names {
		if resources[name] == nil {
			response.RemovedResources = append(response.RemovedResources, name)
		}
	}
	slices.Sort(response.RemovedResources)
	if watch.all {
		watch.names = setOf(found)
	}
	return s.stream.Send(response)
}
