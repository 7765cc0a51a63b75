/**
 * Goal: a health check gets the answer of gRPC's doc/health-checking.md, and costs no more than the gateway
 * can bear.
 * Method: scripted calls and a scripted clock.
 */
import t from 'tap';
import type { CallHandlers } from '../../../../gateway/clients/grpc-call.js';
import { HealthService, type HealthCall } from '../../../../gateway/clients/health-service.js';
import { STATUS_CODE, type RpcStatus } from '../../../../protos/discovery.js';

const SERVICE = 'envoy.service.cluster.v3.ClusterDiscoveryService';
const WHOLE = Buffer.alloc(0);
const requestFor = (service: string): Buffer =>
  Buffer.concat([Buffer.from([0x0a, service.length]), Buffer.from(service)]);

class Scene {
  nowMs = 0;
  ready = true;
  /** How often the service asked whether the gateway is ready. */
  asked = 0;
  readonly service = new HealthService({
    services: [SERVICE],
    isReady: () => {
      this.asked++;
      return this.ready;
    },
    clock: () => this.nowMs,
  });

  /** After the time in which an answer is fresh. */
  later(): void {
    this.nowMs += 1_000;
    this.service.handleTimer();
  }
}

class ScriptedCall {
  readonly statuses: number[] = [];
  isWritable = true;
  /** `OK`: without an error. */
  ended: RpcStatus | 'OK' | undefined;
  readonly handlers: CallHandlers;

  constructor(open: (call: HealthCall) => CallHandlers) {
    this.handlers = open({
      write: ([message]) => {
        this.statuses.push(message?.[1] ?? 0);
        return this.isWritable;
      },
      end: (status) => {
        this.ended ??= status ?? 'OK';
      },
    });
  }

  send(request: Buffer): this {
    this.handlers.onMessage(request);
    return this;
  }
}

const check = ({ service }: Scene) => new ScriptedCall((call) => service.check(call));
const watch = ({ service }: Scene) => new ScriptedCall((call) => service.watch(call));
const [SERVING, NOT_SERVING, SERVICE_UNKNOWN] = [1, 2, 3];

t.test('Check says SERVING for the gateway and its services while /ready does', (t) => {
  const scene = new Scene();
  for (const request of [WHOLE, requestFor(SERVICE)]) {
    t.match(check(scene).send(request), { statuses: [SERVING], ended: 'OK' });
  }
  scene.ready = false;
  scene.nowMs += 1_000;
  t.match(check(scene).send(WHOLE), { statuses: [NOT_SERVING], ended: 'OK' });
  t.end();
});

t.test('Check of a service that the gateway does not serve is NOT_FOUND', (t) => {
  const call = check(new Scene()).send(requestFor('some.Other'));
  t.match(call, { statuses: [], ended: { code: STATUS_CODE.notFound } });
  t.end();
});

t.test('a request that cannot be read, a missing one and a second one each end the call', (t) => {
  const broken = Buffer.from([0x0a, 0x05]);
  t.match(check(new Scene()).send(broken).ended, { code: STATUS_CODE.invalidArgument });
  t.match(watch(new Scene()).send(broken).ended, { code: STATUS_CODE.invalidArgument });
  for (const call of [check(new Scene()), watch(new Scene())]) {
    call.handlers.onEnd();
    t.match(call.ended, { code: STATUS_CODE.internal });
    call.handlers.onDrain();
    call.handlers.onClosed('');
    t.strictSame(call.statuses, []);
  }
  const twice = watch(new Scene()).send(WHOLE).send(WHOLE);
  t.match(twice.ended, { code: STATUS_CODE.internal });
  t.end();
});

t.test('Watch says the status at once, and then each change once', (t) => {
  const scene = new Scene();
  const call = watch(scene).send(WHOLE);
  call.handlers.onEnd();
  t.equal(call.ended, undefined, 'a client that has sent its request may end its side');
  t.strictSame(call.statuses, [SERVING]);
  scene.later();
  t.strictSame(call.statuses, [SERVING], 'nothing changed');
  scene.ready = false;
  scene.later();
  scene.ready = true;
  scene.later();
  t.strictSame(call.statuses, [SERVING, NOT_SERVING, SERVING]);
  call.handlers.onClosed('');
  t.equal(scene.service.watches.size, 0);
  t.end();
});

t.test('Watch of an unknown service says SERVICE_UNKNOWN and stays open', (t) => {
  const scene = new Scene();
  const call = watch(scene).send(requestFor('some.Other'));
  scene.ready = false;
  scene.later();
  t.match(call, { statuses: [SERVICE_UNKNOWN], ended: undefined });
  t.end();
});

t.test('a gateway that drains is NOT_SERVING at once, whatever /ready said a moment ago', (t) => {
  const scene = new Scene();
  const call = watch(scene).send(WHOLE);
  scene.service.handleDraining();
  t.strictSame(call.statuses, [SERVING, NOT_SERVING]);
  t.strictSame(check(scene).send(WHOLE).statuses, [NOT_SERVING]);
  for (const each of scene.service.watches) each.end({ code: 14, message: 'bye' });
  t.match(call.ended, { code: 14 });
  t.end();
});

t.test('a client that does not read gets the latest status when it reads again', (t) => {
  const scene = new Scene();
  const call = watch(scene);
  call.isWritable = false;
  call.send(WHOLE);
  scene.ready = false;
  scene.later();
  scene.ready = true;
  scene.later();
  scene.ready = false;
  scene.later();
  t.strictSame(call.statuses, [SERVING]);
  call.handlers.onDrain();
  t.strictSame(call.statuses, [SERVING, NOT_SERVING]);
  t.end();
});

t.test('however many clients ask, readiness is computed once a second', (t) => {
  const scene = new Scene();
  for (let count = 0; count < 100; count++) check(scene).send(WHOLE);
  t.equal(scene.asked, 1);
  scene.later();
  t.equal(scene.asked, 1, 'and not at all while no client asks');
  t.end();
});
