import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.MetadataUtils;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Collectors;

/**
 * An application that uses grpc-java's own xDS client: it calls each target repeatedly, and prints
 * which backend answers.
 *
 * <pre>GRPC_XDS_BOOTSTRAP=&lt;file&gt; java Client &lt;milliseconds between calls&gt; &lt;target&gt;…</pre>
 *
 * Its output and its calls are described in ../grpc-client.ts.
 */
public final class Client {
  private static final int SETTLED_AFTER = 20;
  private static final long CALL_TIMEOUT_MS = 5_000;
  private static final Metadata.Key<String> ANSWERED_BY =
      Metadata.Key.of("answered-by", Metadata.ASCII_STRING_MARSHALLER);
  private static final MethodDescriptor<byte[], byte[]> CHECK =
      MethodDescriptor.<byte[], byte[]>newBuilder()
          .setType(MethodDescriptor.MethodType.UNARY)
          .setFullMethodName("grpc.health.v1.Health/Check")
          .setRequestMarshaller(new Bytes())
          .setResponseMarshaller(new Bytes())
          .build();

  private static volatile boolean stopping;

  private final String target;
  private final long everyNanos;
  private final TreeMap<String, Integer> answers = new TreeMap<>();
  private int failed;

  private Client(String target, long everyNanos) {
    this.target = target;
    this.everyNanos = everyNanos;
  }

  public static void main(String[] arguments) throws IOException {
    long everyNanos = TimeUnit.MILLISECONDS.toNanos(Long.parseLong(arguments[0]));
    List<Client> clients = new ArrayList<>();
    List<Thread> loops = new ArrayList<>();
    for (int at = 1; at < arguments.length; at++) {
      Client client = new Client(arguments[at], everyNanos);
      clients.add(client);
      loops.add(new Thread(client::callUntilStopped));
    }
    Runtime.getRuntime().addShutdownHook(new Thread(() -> tellTotals(clients, loops)));
    loops.forEach(Thread::start);
    // The parent holds our stdin: the end of stdin is the end of the parent, even after SIGKILL.
    while (System.in.read() >= 0) {
      continue;
    }
    Runtime.getRuntime().halt(0);
  }

  private void callUntilStopped() {
    ManagedChannel channel =
        Grpc.newChannelBuilder(target, InsecureChannelCredentials.create()).build();
    String last = "";
    int streak = 0;
    while (!stopping) {
      long dueNanos = System.nanoTime() + everyNanos;
      try {
        String answer = ask(channel);
        answers.merge(answer, 1, Integer::sum);
        streak = answer.equals(last) ? streak + 1 : 1;
        last = answer;
        if (streak == SETTLED_AFTER) {
          tell("{\"target\":" + quoted(target) + ",\"settled\":" + quoted(answer) + "}");
        }
      } catch (StatusRuntimeException error) {
        failed++;
        streak = 0;
        Status status = error.getStatus();
        String told = status.getCode() + ": " + status.getDescription();
        tell("{\"target\":" + quoted(target) + ",\"error\":" + quoted(told) + "}");
      }
      try {
        TimeUnit.NANOSECONDS.sleep(dueNanos - System.nanoTime());
      } catch (InterruptedException ended) {
        return;
      }
    }
  }

  /** Returns the name of the backend. Every field has its default: no bytes are a valid request. */
  private static String ask(Channel channel) {
    AtomicReference<Metadata> headers = new AtomicReference<>();
    Channel capturing =
        ClientInterceptors.intercept(
            channel,
            MetadataUtils.newCaptureMetadataInterceptor(headers, new AtomicReference<>()));
    CallOptions options =
        CallOptions.DEFAULT.withDeadlineAfter(CALL_TIMEOUT_MS, TimeUnit.MILLISECONDS);
    ClientCalls.blockingUnaryCall(capturing, CHECK, options, new byte[0]);
    String name = headers.get() == null ? null : headers.get().get(ANSWERED_BY);
    return name == null ? "" : name;
  }

  private static void tellTotals(List<Client> clients, List<Thread> loops) {
    stopping = true;
    try {
      for (Thread loop : loops) {
        loop.join();
      }
    } catch (InterruptedException ended) {
      return;
    }
    tell("{\"totals\":{" + clients.stream().map(Client::totals).collect(Collectors.joining(",")) + "}}");
  }

  private String totals() {
    String byName =
        answers.entrySet().stream()
            .map(answer -> quoted(answer.getKey()) + ":" + answer.getValue())
            .collect(Collectors.joining(","));
    return quoted(target) + ":{\"failed\":" + failed + ",\"answers\":{" + byName + "}}";
  }

  private static synchronized void tell(String line) {
    System.out.println(line);
    System.out.flush();
  }

  private static String quoted(String text) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char each : text.toCharArray()) {
      if (each == '"' || each == '\\') {
        quoted.append('\\').append(each);
      } else if (each < ' ') {
        quoted.append(String.format("\\u%04x", (int) each));
      } else {
        quoted.append(each);
      }
    }
    return quoted.append('"').toString();
  }

  private static final class Bytes implements MethodDescriptor.Marshaller<byte[]> {
    @Override
    public InputStream stream(byte[] value) {
      return new ByteArrayInputStream(value);
    }

    @Override
    public byte[] parse(InputStream stream) {
      try {
        return stream.readAllBytes();
      } catch (IOException error) {
        throw Status.INTERNAL.withCause(error).asRuntimeException();
      }
    }
  }
}
