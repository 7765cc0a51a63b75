import com.google.gson.JsonElement;
import com.google.gson.JsonParser;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.util.JsonFormat;
import io.envoyproxy.envoy.config.core.v3.Node;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DeltaDiscoveryResponse;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryRequest;
import io.envoyproxy.envoy.service.discovery.v3.DiscoveryResponse;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Grpc;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.TreeMap;

/**
 * Records every xDS stream and applies the mode, between gRPC and the library. The records have the
 * form that ../control-plane.ts describes. All state is guarded by the lock of this object.
 */
final class Streams implements ServerInterceptor {
  private static final int KEPT_STREAMS = 200;
  private static final int KEPT_REQUESTS = 20;
  private static final Map<String, Status> REFUSALS =
      Map.of(
          "unimplemented", Status.UNIMPLEMENTED,
          "unauthenticated", Status.UNAUTHENTICATED);
  private static final Set<String> OTHER_MODES =
      Set.of("normal", "silent", "die-after-first-response");

  private final List<Call<?, ?>> calls = new ArrayList<>();
  private String mode = "normal";
  private int opened;
  private int refused;

  /** The fields are those of the JSON. */
  private static final class Nack {
    String typeUrl;
    String error;
  }

  private static final class Request {
    String typeUrl;
    boolean hasNode;
    String version;
    String nonce;
  }

  private static final class OfType {
    int requests;
    Map<String, String> initialResourceVersions = new TreeMap<>();
    List<String> subscribed = new ArrayList<>();
    List<String> unsubscribed = new ArrayList<>();
    Set<String> subscriptions = new LinkedHashSet<>();
    int responses;
    int sentResources;
    int sentRemovals;
  }

  private static final class Stream {
    int id;
    boolean open = true;
    String method;
    String peer;
    List<String> clientSans = List.of();
    String nodeId = "";
    JsonElement node;
    int extensions;
    int requestsWithNode;
    Map<String, List<String>> headers = new TreeMap<>();
    String ended = "";
    List<Request> recentRequests = new ArrayList<>();
    int requests;
    int acks;
    List<Nack> nacks = new ArrayList<>();
    int responses;
    Map<String, OfType> types = new TreeMap<>();

    OfType ofType(String typeUrl) {
      return types.computeIfAbsent(typeUrl, ignored -> new OfType());
    }

    void request(String typeUrl, Node node, String version, String nonce, String error) {
      requests++;
      ofType(typeUrl).requests++;
      if (node != null) {
        takeNode(node);
      }
      if (!error.isEmpty()) {
        Nack nack = new Nack();
        nack.typeUrl = typeUrl;
        nack.error = error;
        nacks.add(nack);
      } else if (!nonce.isEmpty()) {
        acks++;
      }
      Request request = new Request();
      request.typeUrl = typeUrl;
      request.hasNode = node != null;
      request.version = version;
      request.nonce = nonce;
      recentRequests.add(request);
      if (recentRequests.size() > KEPT_REQUESTS) {
        recentRequests.remove(0);
      }
    }

    private void takeNode(Node given) {
      requestsWithNode++;
      nodeId = given.getId();
      extensions = given.getExtensionsCount();
      try {
        Node brief = given.toBuilder().clearExtensions().build();
        node = JsonParser.parseString(JsonFormat.printer().print(brief));
      } catch (InvalidProtocolBufferException error) {
        node = null;
      }
    }

    void take(DeltaDiscoveryRequest request) {
      request(
          request.getTypeUrl(),
          request.hasNode() ? request.getNode() : null,
          "",
          request.getResponseNonce(),
          request.getErrorDetail().getMessage());
      OfType of = ofType(request.getTypeUrl());
      if (of.requests == 1) {
        of.initialResourceVersions.putAll(request.getInitialResourceVersionsMap());
      }
      of.subscribed.addAll(request.getResourceNamesSubscribeList());
      of.unsubscribed.addAll(request.getResourceNamesUnsubscribeList());
      of.subscriptions.addAll(request.getResourceNamesSubscribeList());
      request.getResourceNamesUnsubscribeList().forEach(of.subscriptions::remove);
    }

    void take(DiscoveryRequest request) {
      request(
          request.getTypeUrl(),
          request.hasNode() ? request.getNode() : null,
          request.getVersionInfo(),
          request.getResponseNonce(),
          request.getErrorDetail().getMessage());
      OfType of = ofType(request.getTypeUrl());
      of.subscribed = new ArrayList<>(request.getResourceNamesList());
      of.subscriptions = new LinkedHashSet<>(of.subscribed);
    }

    void respond(String typeUrl, int resources, int removals) {
      responses++;
      OfType of = ofType(typeUrl);
      of.responses++;
      of.sentResources += resources;
      of.sentRemovals += removals;
    }
  }

  /** The value of GET /streams. */
  synchronized JsonElement told() {
    List<Stream> records = new ArrayList<>();
    calls.forEach(each -> records.add(each.record));
    long open = records.stream().filter(each -> each.open).count();
    Map<String, Object> told =
        Map.of("mode", mode, "open", open, "opened", opened, "refused", refused, "streams", records);
    // Encoded here, under the lock: the records are live.
    return new com.google.gson.Gson().toJsonTree(told);
  }

  synchronized void setMode(String wanted, boolean endOpen) {
    if (!OTHER_MODES.contains(wanted) && !REFUSALS.containsKey(wanted)) {
      throw new IllegalArgumentException("unknown mode " + wanted);
    }
    mode = wanted;
    for (Call<?, ?> each : List.copyOf(calls)) {
      if (endOpen || (each.isMuted && !wanted.equals("silent"))) {
        each.finish(Status.UNAVAILABLE.withDescription("the control plane ends its streams"));
      }
    }
  }

  @Override
  public synchronized <Q, R> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, R> call, Metadata headers, ServerCallHandler<Q, R> next) {
    if (REFUSALS.containsKey(mode)) {
      refused++;
      call.close(REFUSALS.get(mode), new Metadata());
      return new ServerCall.Listener<Q>() {};
    }
    Call<Q, R> recorded = new Call<>(call, headers);
    calls.add(recorded);
    if (calls.size() > KEPT_STREAMS) {
      calls.stream().filter(each -> !each.record.open).findFirst().ifPresent(calls::remove);
    }
    ServerCall.Listener<Q> listener = next.startCall(recorded, headers);
    return new SimpleForwardingServerCallListener<Q>(listener) {
      @Override
      public void onMessage(Q message) {
        recorded.received(message);
        super.onMessage(message);
      }

      @Override
      public void onComplete() {
        // The library did not end this stream itself, so it would keep its watches.
        if (recorded.isFinished) {
          super.onCancel();
        } else {
          super.onComplete();
        }
        recorded.closed(Status.OK);
      }

      @Override
      public void onCancel() {
        super.onCancel();
        recorded.closed(Status.CANCELLED);
      }
    };
  }

  private final class Call<Q, R> extends SimpleForwardingServerCall<Q, R> {
    private final Stream record = new Stream();
    private boolean isClosed;
    private boolean isFinished;
    private boolean isMuted;

    Call(ServerCall<Q, R> call, Metadata headers) {
      super(call);
      record.id = ++opened;
      record.method = "/" + call.getMethodDescriptor().getFullMethodName();
      record.peer =
          Objects.toString(call.getAttributes().get(Grpc.TRANSPORT_ATTR_REMOTE_ADDR), "");
      for (String key : headers.keys()) {
        if (!key.endsWith(Metadata.BINARY_HEADER_SUFFIX)) {
          Iterable<String> values =
              headers.getAll(Metadata.Key.of(key, Metadata.ASCII_STRING_MARSHALLER));
          record.headers.put(key, new ArrayList<>((Collection<String>) asList(values)));
        }
      }
    }

    private List<String> asList(Iterable<String> values) {
      List<String> list = new ArrayList<>();
      values.forEach(list::add);
      return list;
    }

    void received(Q message) {
      synchronized (Streams.this) {
        if (message instanceof DeltaDiscoveryRequest) {
          record.take((DeltaDiscoveryRequest) message);
        } else if (message instanceof DiscoveryRequest) {
          record.take((DiscoveryRequest) message);
        }
      }
    }

    @Override
    public void sendMessage(R message) {
      synchronized (Streams.this) {
        if (isClosed) {
          return;
        }
        if (mode.equals("silent")) {
          isMuted = true;
          return;
        }
        if (message instanceof DeltaDiscoveryResponse) {
          DeltaDiscoveryResponse response = (DeltaDiscoveryResponse) message;
          record.respond(
              response.getTypeUrl(),
              response.getResourcesCount(),
              response.getRemovedResourcesCount());
        } else if (message instanceof DiscoveryResponse) {
          DiscoveryResponse response = (DiscoveryResponse) message;
          record.respond(response.getTypeUrl(), response.getResourcesCount(), 0);
        }
        super.sendMessage(message);
        if (mode.equals("die-after-first-response")) {
          finish(Status.UNAVAILABLE.withDescription("the control plane died after a response"));
        }
      }
    }

    /** Ends the stream from outside of the library. */
    void finish(Status status) {
      synchronized (Streams.this) {
        if (!isClosed) {
          isFinished = true;
          close(status, new Metadata());
        }
      }
    }

    @Override
    public void close(Status status, Metadata trailers) {
      synchronized (Streams.this) {
        if (!isClosed) {
          isClosed = true;
          closed(status);
          super.close(status, trailers);
        }
      }
    }

    void closed(Status status) {
      synchronized (Streams.this) {
        if (record.open) {
          record.open = false;
          record.ended = status.getCode().name();
        }
      }
    }
  }
}
