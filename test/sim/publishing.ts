/**
 * A source changes its content, and the oracle records it. The caller decides which streams get it.
 */
import { partsOf, payload } from './names.js';
import type { Site } from './site.js';
import type { Upstream } from './upstream.js';

/** New content without a reference. */
export function publishContent(site: Site, server: Upstream, name: string): void {
  const { oracle, queue } = site;
  const mark = oracle.history.newMark();
  const fields = { mark, source: server.name, name, reference: '', redirect: undefined };
  oracle.history.notePublished({ ...fields, atMs: queue.nowMs });
  server.set(name, payload(partsOf(name).typeUrl, name, '', mark), false);
  site.log(`${server.name} publishes ${name} #${mark}`);
}

export function deleteName(site: Site, server: Upstream, name: string): void {
  server.delete(name);
  site.oracle.history.noteDeleted(server.name, name, site.queue.nowMs);
  site.log(`${server.name} deletes ${name}`);
}
