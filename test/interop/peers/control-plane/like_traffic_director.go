package main

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// serveLikeTrafficDirector behaves like Traffic Director, as far as its documentation tells:
//   - ADS, state of the world only, under old-style names and xdstp names;
//   - the Node names the network and the project: in the id (projects/<number>/networks/<network>/nodes/<id>)
//     or in the metadata keys of older bootstraps; any other client is refused;
//   - it requests load reports of all clusters.
//
// The resources of a network go to the clients of the network. Google's credentials are not checked.
func serveLikeTrafficDirector(to *grpc.Server, mux *http.ServeMux, state *content) {
	discovery.RegisterAggregatedDiscoveryServiceServer(to, adsOf{
		sotw: func(stream sotwStream) error {
			return serveSotw(state, sotwRules{admit: admitLikeTrafficDirector}, stream)
		},
	})
	loads := &loadReports{clients: make(map[string]*clientLoads)}
	loadstats.RegisterLoadReportingServiceServer(to, loads)
	mux.HandleFunc("GET /loads", answering(loads.get))
}

func admitLikeTrafficDirector(_ context.Context, node *core.Node) (*admitted, error) {
	fields := node.GetMetadata().GetFields()
	network := fields["TRAFFICDIRECTOR_NETWORK_NAME"].GetStringValue()
	project := fields["TRAFFICDIRECTOR_GCP_PROJECT_NUMBER"].GetStringValue()
	parts := strings.Split(node.GetId(), "/")
	if len(parts) == 6 && parts[0] == "projects" && parts[2] == "networks" && parts[4] == "nodes" {
		project, network = parts[1], parts[3]
	}
	if network == "" || project == "" {
		return nil, status.Error(codes.PermissionDenied, "the node names no network and project")
	}
	return &admitted{scope: network, tailor: untailored}, nil
}

const loadReportInterval = 500 * time.Millisecond

// clientLoads are the sums of all reports of one node id.
type clientLoads struct {
	Streams int `json:"streams"`
	Reports int `json:"reports"`
	// Finished requests by cluster.
	Succeeded map[string]uint64 `json:"succeeded"`
	Failed    map[string]uint64 `json:"failed"`
}

type loadReports struct {
	loadstats.UnimplementedLoadReportingServiceServer
	mu      sync.Mutex
	clients map[string]*clientLoads
}

func (l *loadReports) StreamLoadStats(stream loadstats.LoadReportingService_StreamLoadStatsServer) error {
	var client *clientLoads
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		if client == nil {
			if _, err := admitFirst(stream.Context(), admitLikeTrafficDirector, request.GetNode()); err != nil {
				return err
			}
			client = l.opened(request.GetNode().GetId())
			err := stream.Send(&loadstats.LoadStatsResponse{
				SendAllClusters: true, LoadReportingInterval: durationpb.New(loadReportInterval),
			})
			if err != nil {
				return err
			}
			continue
		}
		l.report(client, request)
	}
}

func (l *loadReports) opened(node string) *clientLoads {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.clients[node] == nil {
		l.clients[node] = &clientLoads{Succeeded: make(map[string]uint64), Failed: make(map[string]uint64)}
	}
	l.clients[node].Streams++
	return l.clients[node]
}

func (l *loadReports) report(client *clientLoads, request *loadstats.LoadStatsRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	client.Reports++
	for _, cluster := range request.GetClusterStats() {
		for _, locality := range cluster.GetUpstreamLocalityStats() {
			client.Succeeded[cluster.GetClusterName()] += locality.GetTotalSuccessfulRequests()
			client.Failed[cluster.GetClusterName()] += locality.GetTotalErrorRequests()
		}
	}
}

func (l *loadReports) get(*http.Request) (any, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Marshalled here, under the lock: the sums are live.
	body, err := json.Marshal(l.clients)
	return json.RawMessage(body), err
}
