/** Reads a listing of clients from the admin API, page after page. */
import { askAdmin, type AdminAnswer, type AdminTarget } from './admin-client.js';

export interface ClientList<Row> {
  readonly count: number;
  readonly clients: readonly Row[];
}

/**
 * @param path `/clients` or `/status`
 * @returns all pages as one answer; the first that is not 200 as it is
 */
export async function askForClients(target: AdminTarget, path: string): Promise<AdminAnswer> {
  const clients: unknown[] = [];
  let query = '';
  for (;;) {
    const answer = await askAdmin(target, path + query);
    if (!answer.ok || answer.status !== 200) return answer;
    const page = answer.value as Partial<ClientList<unknown>> & { readonly next?: number };
    // Not in one call: an array of 100,000 rows is too long for arguments.
    for (const row of page.clients ?? []) clients.push(row);
    if (page.next === undefined) {
      return { ...answer, value: { count: page.count ?? clients.length, clients } };
    }
    query = `?after=${page.next}`;
  }
}
