import com.google.gson.Gson;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import com.google.protobuf.Any;
import com.google.protobuf.Message;
import com.google.protobuf.util.JsonFormat;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import io.envoyproxy.controlplane.cache.v3.SimpleCache;
import io.envoyproxy.controlplane.cache.v3.Snapshot;
import io.envoyproxy.controlplane.server.V3DiscoveryServer;
import io.envoyproxy.envoy.config.cluster.v3.Cluster;
import io.envoyproxy.envoy.config.endpoint.v3.ClusterLoadAssignment;
import io.envoyproxy.envoy.config.listener.v3.Listener;
import io.envoyproxy.envoy.config.route.v3.RouteConfiguration;
import io.envoyproxy.envoy.extensions.filters.http.router.v3.Router;
import io.envoyproxy.envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager;
import io.envoyproxy.envoy.extensions.transport_sockets.tls.v3.Secret;
import io.envoyproxy.envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext;
import io.envoyproxy.envoy.extensions.upstreams.http.v3.HttpProtocolOptions;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.io.Reader;
import java.io.InputStreamReader;
import java.net.InetSocketAddress;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * java-control-plane, unmodified, on all its gRPC services (ADS and one per type, delta and state of
 * the world), with a SimpleCache keyed by the id of the Node. The cache looks at the Node of every
 * request, so a request without one gets the snapshot of the empty id, which never exists.
 *
 * <pre>java Server [-xds-port=0] [-control-port=0]</pre>
 *
 * Its first line on stdout is {"xdsPort", "controlPort"}. Its HTTP control API is a part of the one of
 * ../control-plane:
 *
 * <pre>
 * PUT  /snapshots?node=…   [{name, json}]: the complete content of a node id
 * GET  /streams            counts and names of requests, ACKs, NACKs and responses
 * POST /behaviour          {mode, endStreams?}
 * </pre>
 */
public final class Server {
  private static final Gson GSON = new Gson();
  private static final JsonFormat.Parser RESOURCES =
      JsonFormat.parser()
          .usingTypeRegistry(
              JsonFormat.TypeRegistry.newBuilder()
                  .add(Cluster.getDescriptor())
                  .add(ClusterLoadAssignment.getDescriptor())
                  .add(Listener.getDescriptor())
                  .add(RouteConfiguration.getDescriptor())
                  .add(Secret.getDescriptor())
                  .add(HttpConnectionManager.getDescriptor())
                  .add(Router.getDescriptor())
                  .add(UpstreamTlsContext.getDescriptor())
                  .add(HttpProtocolOptions.getDescriptor())
                  .build());

  private final SimpleCache<String> cache = new SimpleCache<>(node -> node.getId());
  private final Streams streams = new Streams();
  private final AtomicLong snapshots = new AtomicLong();

  public static void main(String[] arguments) throws IOException {
    Map<String, Integer> ports = new HashMap<>(Map.of("-xds-port", 0, "-control-port", 0));
    for (String argument : arguments) {
      String[] parts = argument.split("=", 2);
      ports.put(parts[0], Integer.parseInt(parts[1]));
    }
    new Server().serve(ports.get("-xds-port"), ports.get("-control-port"));
    // The parent holds our stdin: the end of stdin is the end of the parent, even after SIGKILL.
    while (System.in.read() >= 0) {
      continue;
    }
    Runtime.getRuntime().halt(0);
  }

  private void serve(int xdsPort, int controlPort) throws IOException {
    V3DiscoveryServer library = new V3DiscoveryServer(cache);
    io.grpc.Server xds =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", xdsPort))
            .intercept(streams)
            .permitKeepAliveTime(100, TimeUnit.MILLISECONDS)
            .permitKeepAliveWithoutCalls(true)
            .addService(library.getAggregatedDiscoveryServiceImpl())
            .addService(library.getClusterDiscoveryServiceImpl())
            .addService(library.getEndpointDiscoveryServiceImpl())
            .addService(library.getListenerDiscoveryServiceImpl())
            .addService(library.getRouteDiscoveryServiceImpl())
            .addService(library.getSecretDiscoveryServiceImpl())
            .build()
            .start();
    HttpServer control = HttpServer.create(new InetSocketAddress("127.0.0.1", controlPort), 0);
    control.createContext("/snapshots", exchange -> answer(exchange, this::putSnapshot));
    control.createContext("/streams", exchange -> answer(exchange, ignored -> streams.told()));
    control.createContext("/behaviour", exchange -> answer(exchange, this::postBehaviour));
    control.start();
    Map<String, Integer> ready =
        Map.of("xdsPort", xds.getPort(), "controlPort", control.getAddress().getPort());
    System.out.println(GSON.toJson(ready));
  }

  private interface Handler {
    Object handle(HttpExchange exchange) throws Exception;
  }

  /** Answers with the handler's value as JSON, or with 400 and its error. */
  private static void answer(HttpExchange exchange, Handler handler) throws IOException {
    int status = 200;
    String body;
    try {
      body = GSON.toJson(handler.handle(exchange));
    } catch (Exception error) {
      status = 400;
      body = error.toString();
    }
    byte[] bytes = body.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length);
    exchange.getResponseBody().write(bytes);
    exchange.close();
  }

  private static JsonElement bodyOf(HttpExchange exchange) {
    Reader reader = new InputStreamReader(exchange.getRequestBody(), StandardCharsets.UTF_8);
    return JsonParser.parseReader(reader);
  }

  private Object putSnapshot(HttpExchange exchange) throws Exception {
    String query = exchange.getRequestURI().getRawQuery();
    if (query == null || !query.startsWith("node=")) {
      throw new IllegalArgumentException("a snapshot without a node id");
    }
    String node = URLDecoder.decode(query.substring("node=".length()), StandardCharsets.UTF_8);
    List<Any> resources = new ArrayList<>();
    for (JsonElement each : bodyOf(exchange).getAsJsonArray()) {
      Any.Builder any = Any.newBuilder();
      RESOURCES.merge(GSON.toJson(each.getAsJsonObject().get("json")), any);
      resources.add(any.build());
    }
    Snapshot snapshot =
        Snapshot.create(
            ofType(resources, Cluster.class),
            ofType(resources, ClusterLoadAssignment.class),
            ofType(resources, Listener.class),
            ofType(resources, RouteConfiguration.class),
            ofType(resources, Secret.class),
            Long.toString(snapshots.incrementAndGet()));
    cache.setSnapshot(node, snapshot);
    return Map.of();
  }

  private static <T extends Message> List<T> ofType(List<Any> resources, Class<T> type)
      throws IOException {
    List<T> found = new ArrayList<>();
    for (Any each : resources) {
      if (each.is(type)) {
        found.add(each.unpack(type));
      }
    }
    return found;
  }

  private Object postBehaviour(HttpExchange exchange) {
    JsonObject behaviour = bodyOf(exchange).getAsJsonObject();
    JsonElement endStreams = behaviour.get("endStreams");
    streams.setMode(
        behaviour.get("mode").getAsString(), endStreams != null && endStreams.getAsBoolean());
    return Map.of();
  }
}
