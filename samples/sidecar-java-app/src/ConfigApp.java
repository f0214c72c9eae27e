import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.ConnectException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.Executors;

/**
 * The app of the sidecar sample, in Java: GET /config returns the response of GET /config/ on
 * localhost:$CONFIG_SERVER_PORT.
 */
public class ConfigApp {
    /** How long a sidecar may take to start: the platform starts it and the app in no particular order. */
    private static final Duration PATIENCE = Duration.ofSeconds(5);

    private static final HttpClient client = HttpClient.newBuilder().connectTimeout(PATIENCE).build();

    public static void main(String[] args) throws IOException {
        String port = System.getenv().getOrDefault("PORT", "8080");
        HttpServer server = HttpServer.create(); // not bound yet: who connects finds a server that answers
        server.createContext("/", exchange -> {
            if (!exchange.getRequestURI().getPath().equals("/")) {
                answer(exchange, 404, "text/plain", "Not found. Paths: / and /config\n");
                return;
            }
            answer(exchange, 200, "text/plain", "A Java app with a sidecar. See /config for the response of the sidecar.\n");
        });
        server.createContext("/config", ConfigApp::config);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.bind(new InetSocketAddress(Integer.parseInt(port)), 0);
        server.start();
        System.out.println("listening on port " + port);
    }

    private static void config(HttpExchange exchange) throws IOException {
        if (!exchange.getRequestURI().getPath().equals("/config")) {
            answer(exchange, 404, "text/plain", "Not found. Paths: / and /config\n");
            return;
        }
        if (!exchange.getRequestMethod().equals("GET")) {
            exchange.getResponseHeaders().set("Allow", "GET");
            answer(exchange, 405, "text/plain", "Only GET is allowed here.\n");
            return;
        }
        String port = System.getenv("CONFIG_SERVER_PORT");
        if (port == null || !port.matches("[0-9]{1,5}")) {
            answer(exchange, 500, "text/plain", "CONFIG_SERVER_PORT is not set to a port: set it under env in the manifest, and push again.\n");
            return;
        }
        try {
            HttpResponse<String> got = ask(port);
            if (got.statusCode() != 200) {
                answer(exchange, 502, "text/plain", "The sidecar answers " + got.statusCode() + ": " + got.body() + "\n");
                return;
            }
            answer(exchange, 200, got.headers().firstValue("Content-Type").orElse("text/plain"), got.body());
        } catch (IOException e) {
            answer(exchange, 502, "text/plain", "The sidecar does not answer: " + e + "\n(its lines in `cf logs APP --recent` say why)\n");
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            answer(exchange, 503, "text/plain", "The app is stopping.\n");
        }
    }

    /** Calls the sidecar, with retries until it listens. */
    private static HttpResponse<String> ask(String port) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://localhost:" + port + "/config/")).timeout(PATIENCE).build();
        long until = System.nanoTime() + PATIENCE.toNanos();
        while (true) {
            try {
                return client.send(request, HttpResponse.BodyHandlers.ofString());
            } catch (ConnectException e) {
                if (System.nanoTime() > until) {
                    throw e;
                }
                Thread.sleep(50);
            }
        }
    }

    private static void answer(HttpExchange exchange, int status, String type, String text) throws IOException {
        byte[] body = text.getBytes(StandardCharsets.UTF_8);
        exchange.getResponseHeaders().set("Content-Type", type);
        exchange.sendResponseHeaders(status, body.length == 0 ? -1 : body.length);
        try (var out = exchange.getResponseBody()) {
            out.write(body);
        }
    }
}
