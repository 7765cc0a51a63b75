/**
 * The shop of the quickstart: two HTTP servers, at the endpoints that the two control planes name. Each
 * responds with its place, so that `curl http://127.0.0.1:10000/` through Envoy shows which one serves.
 *
 *   node examples/quickstart/backend.mjs
 */
import { createServer } from 'node:http';

const PLACES = { cloud: 8081, 'on-prem': 8082 };

for (const [place, port] of Object.entries(PLACES)) {
  const server = createServer((request, response) => {
    response.end(`${request.method} ${request.url} from the shop ${place}\n`);
  });
  server.on('error', (error) => {
    console.error(`The shop ${place} cannot listen: ${error.message}`);
    process.exit(1);
  });
  server.listen(port, '127.0.0.1', () => {
    console.log(`The shop ${place} listens on 127.0.0.1:${port}`);
  });
}
