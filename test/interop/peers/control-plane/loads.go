package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpoint "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadstats "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// loadsAsk is the body of PUT /loads: the loads that the control plane asks for.
type loadsAsk struct {
	IntervalMs int      `json:"intervalMs"`
	Clusters   []string `json:"clusters"`
	ByEndpoint bool     `json:"byEndpoint"`
}

// clusterTotals adds up all reports about one cluster.
type clusterTotals struct {
	ServiceName string `json:"serviceName"`
	Successful  uint64 `json:"successful"`
	Failed      uint64 `json:"failed"`
	Issued      uint64 `json:"issued"`
	Dropped     uint64 `json:"dropped"`
	// Of the latest report.
	InProgress uint64 `json:"inProgress"`
	// Issued requests by `region/zone/sub_zone`, and by `address:port`.
	Localities map[string]uint64 `json:"localities"`
	Endpoints  map[string]uint64 `json:"endpoints"`
	IntervalMs int64             `json:"intervalMs"`
}

// loads is a load reporting service. It is UNIMPLEMENTED until the test asks for loads.
type loads struct {
	mu       sync.Mutex
	ask      *loadsAsk
	streams  int
	reports  int
	features map[string]bool
	clusters map[string]*clusterTotals
}

func newLoads() *loads {
	return &loads{features: map[string]bool{}, clusters: map[string]*clusterTotals{}}
}

// StreamLoadStats implements envoy.service.load_stats.v3.LoadReportingService.
func (l *loads) StreamLoadStats(stream loadstats.LoadReportingService_StreamLoadStatsServer) error {
	l.mu.Lock()
	ask := l.ask
	if ask != nil {
		l.streams++
	}
	l.mu.Unlock()
	if ask == nil {
		return status.Error(codes.Unimplemented, "unknown service envoy.service.load_stats.v3.LoadReportingService")
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetNode().GetId() == "" {
		return status.Error(codes.InvalidArgument, "the first request has no Node")
	}
	l.take(first)
	if err := stream.Send(&loadstats.LoadStatsResponse{
		Clusters:                  ask.Clusters,
		SendAllClusters:           len(ask.Clusters) == 0,
		LoadReportingInterval:     durationpb.New(time.Duration(ask.IntervalMs) * time.Millisecond),
		ReportEndpointGranularity: ask.ByEndpoint,
	}); err != nil {
		return err
	}
	for {
		request, err := stream.Recv()
		if err != nil {
			return err
		}
		l.take(request)
	}
}

func (l *loads) take(request *loadstats.LoadStatsRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, feature := range request.GetNode().GetClientFeatures() {
		l.features[feature] = true
	}
	if request.GetNode() == nil {
		l.reports++
		// A cluster without any load is left out.
		for _, totals := range l.clusters {
			totals.InProgress = 0
		}
	}
	for _, stats := range request.GetClusterStats() {
		totals := l.clusters[stats.GetClusterName()]
		if totals == nil {
			totals = &clusterTotals{Localities: map[string]uint64{}, Endpoints: map[string]uint64{}}
			l.clusters[stats.GetClusterName()] = totals
		}
		totals.add(stats)
	}
}

func (c *clusterTotals) add(stats *endpoint.ClusterStats) {
	c.ServiceName = stats.GetClusterServiceName()
	c.Dropped += stats.GetTotalDroppedRequests()
	c.IntervalMs = stats.GetLoadReportInterval().AsDuration().Milliseconds()
	c.InProgress = 0
	for _, locality := range stats.GetUpstreamLocalityStats() {
		c.Successful += locality.GetTotalSuccessfulRequests()
		c.Failed += locality.GetTotalErrorRequests()
		c.Issued += locality.GetTotalIssuedRequests()
		c.InProgress += locality.GetTotalRequestsInProgress()
		at := locality.GetLocality()
		c.Localities[fmt.Sprintf("%s/%s/%s", at.GetRegion(), at.GetZone(), at.GetSubZone())] += locality.GetTotalIssuedRequests()
		for _, each := range locality.GetUpstreamEndpointStats() {
			c.Endpoints[text(each.GetAddress())] += each.GetTotalIssuedRequests()
		}
	}
}

func text(address *core.Address) string {
	socket := address.GetSocketAddress()
	return fmt.Sprintf("%s:%d", socket.GetAddress(), socket.GetPortValue())
}

func (c *controlPlane) putLoads(r *http.Request) (any, error) {
	var ask loadsAsk
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		return nil, err
	}
	if ask.IntervalMs <= 0 {
		return nil, errors.New("intervalMs must be positive")
	}
	c.loads.mu.Lock()
	defer c.loads.mu.Unlock()
	c.loads.ask = &ask
	return map[string]any{}, nil
}

func (c *controlPlane) getLoads(*http.Request) (any, error) {
	c.loads.mu.Lock()
	defer c.loads.mu.Unlock()
	// Marshalled here, under the lock: the totals are live.
	body, err := json.Marshal(map[string]any{
		"streams": c.loads.streams, "reports": c.loads.reports, "features": mapKeys(c.loads.features), "clusters": c.loads.clusters,
	})
	return json.RawMessage(body), err
}
