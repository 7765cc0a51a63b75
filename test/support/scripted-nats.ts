/** Behaviour that a real nats-server shows only when it is broken, overloaded or misconfigured. */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';

export class ScriptedNats {
  /** Each connection's lines, in order; payloads are lines too. */
  readonly connections: string[][] = [];
  /** Whether pings are answered. */
  answers = true;
  /** The error sent for each subscription, if any. */
  refusal: string | undefined;
  /** More fields for its INFO message. */
  info: Readonly<Record<string, unknown>> = {};
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #pingsOwed: (() => void)[] = [];

  private constructor() {
    this.#server = createServer((socket) => {
      this.#serve(socket);
    });
  }

  static start(): Promise<ScriptedNats> {
    const made = new ScriptedNats();
    return new Promise((resolve) => {
      made.#server.listen(0, '127.0.0.1', () => {
        resolve(made);
      });
    });
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Sends the owed PONGs, and answers from now on. */
  answer(): void {
    this.answers = true;
    for (const pong of this.#pingsOwed.splice(0)) pong();
  }

  /** Stops reading. */
  stopReading(): void {
    for (const socket of this.#sockets) socket.pause();
  }

  hangUp(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  stop(): Promise<void> {
    this.hangUp();
    return new Promise((resolve) => {
      this.#server.close(() => {
        resolve();
      });
    });
  }

  #serve(socket: Socket): void {
    const lines: string[] = [];
    this.connections.push(lines);
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    // The other side may disconnect at any time.
    socket.on('error', () => undefined);
    const about = { server_id: 'x', version: '2.10.0', proto: 1, headers: true };
    socket.write(`INFO ${JSON.stringify({ ...about, max_payload: 65_536, ...this.info })}\r\n`);
    let rest = '';
    socket.on('data', (bytes) => {
      const read = (rest + bytes.toString('latin1')).split('\r\n');
      rest = read.pop() ?? '';
      for (const line of read) {
        lines.push(line);
        this.#take(line, socket);
      }
    });
  }

  #take(line: string, socket: Socket): void {
    if (line.startsWith('SUB ') && this.refusal !== undefined) {
      socket.write(`-ERR '${this.refusal}'\r\n`);
    }
    if (line !== 'PING') return;
    const pong = (): void => void socket.write('PONG\r\n');
    if (this.answers) pong();
    else this.#pingsOwed.push(pong);
  }
}
