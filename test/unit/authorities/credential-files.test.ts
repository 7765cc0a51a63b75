/**
 * Goal: the gateway soon tries new certificates and tokens at a source that refused the old ones.
 */
import { renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import t, { type Test } from 'tap';
import { SourceConnection } from '../../../authorities/source-connection.js';
import { Federation } from '../../../authorities/core/federation.js';
import { CredentialFiles } from '../../../authorities/credential-files.js';
import { DEFAULT_RESOLUTION } from '../../../config/limits.js';
import type { GrpcSourceSpec } from '../../../config/model.js';
import { STATUS_CODE } from '../../../protos/discovery.js';
import { mapOf, nameOf, RecordingWatcher, thing, THING } from '../../support/federation-driver.js';
import { NO_IDENTITY } from '../../../authorities/core/sources/client-identity.js';

const PLAIN = mapOf({ authorities: { cloud: { sources: ['c'] } }, timers: { probeIntervalMs: 0 } });
const plainSpec = PLAIN.sources.get('c') as GrpcSourceSpec;

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A source with a token and certificates in files. */
function startFiles(t: Test) {
  const directory = t.testdir({ token: 'old', 'ca.pem': 'ca', 'c.pem': 'cert', 'c.key': 'key' });
  const spec: GrpcSourceSpec = {
    ...plainSpec,
    initialMetadata: [
      { key: 'authorization', valueFile: join(directory, 'token') },
      { key: 'x-plain', value: 'no file' },
    ],
    tls: {
      rootCertsFile: join(directory, 'ca.pem'),
      certChainFile: join(directory, 'c.pem'),
      privateKeyFile: join(directory, 'c.key'),
      requiredSans: [],
    },
  };
  return { directory, spec };
}

t.test('a change of any of the files is reported once, however it is made', (t) => {
  const { directory, spec } = startFiles(t);
  let told = 0;
  const files = new CredentialFiles(spec, NO_IDENTITY, () => told++);
  t.teardown(() => {
    files.close();
  });
  const changes: readonly (() => void)[] = [
    () => {
      writeFileSync(join(directory, 'token'), 'new');
    },
    () => {
      writeFileSync(join(directory, 'new.pem'), 'new ca');
      renameSync(join(directory, 'new.pem'), join(directory, 'ca.pem'));
    },
    () => {
      writeFileSync(join(directory, 'c.pem'), 'new cert');
    },
    () => {
      rmSync(join(directory, 'c.key'));
    },
    () => {
      writeFileSync(join(directory, 'c.key'), 'new key');
    },
  ];
  for (const [index, change] of changes.entries()) {
    files.noteUsed();
    files.watch();
    files.refresh();
    t.equal(told, index, 'nothing changed');
    change();
    files.refresh();
    files.refresh();
    t.equal(told, index + 1);
  }
  files.noteUsed();
  writeFileSync(join(directory, 'token'), 'newer');
  files.refresh();
  t.equal(told, changes.length, 'only a source that refused waits for a change');
  t.end();
});

t.test(
  'a source that refused is tried again within seconds of a change of its files',
  async (t) => {
    mock.timers.enable({ apis: ['setInterval'] });
    t.teardown(() => {
      mock.timers.reset();
    });
    const { directory, spec } = startFiles(t);
    const federation = new Federation({
      map: { ...PLAIN, sources: new Map([['c', spec]]) },
      nodeFor: () => new Uint8Array(),
      bounds: DEFAULT_RESOLUTION,
      maxResourcesPerResponse: 100,
      random: () => 0.5,
    });
    let nowMs = 1_000;
    const dials: number[] = [];
    const shell = new SourceConnection(
      spec,
      NO_IDENTITY,
      {
        dial: (_spec, _identity, handlers) => {
          dials.push(nowMs);
          queueMicrotask(() => {
            handlers.onEnd({
              code: STATUS_CODE.unauthenticated,
              message: 'no',
              detectedBy: 'stream',
            });
          });
          return { send: () => undefined, probe: () => Promise.resolve(true), cancel: () => true };
        },
      },
      {
        onMessage: () => undefined,
        onEvent: (epoch, event) => {
          federation.handleAttemptEvent('c', epoch, event, nowMs);
          flush();
        },
        onCredentialsChanged: () => {
          federation.handleCredentialsChanged('c', nowMs);
        },
      },
    );
    t.teardown(() => {
      shell.close();
    });
    const flush = (): void => {
      for (const effect of federation.flush(nowMs)) {
        if (effect.kind === 'server') shell.perform(effect.effect);
      }
    };
    /** Advances `ms` in steps of 1 s. */
    const after = async (ms: number): Promise<void> => {
      for (const untilMs = nowMs + ms; nowMs < untilMs;) {
        nowMs += 1_000;
        mock.timers.tick(1_000);
        federation.handleTimer(nowMs);
        flush();
        await settled();
        // The breaker runs on its own clock: a refusal opens it for a moment.
        while (shell.breakerState === 'open') await settled();
      }
    };
    federation.watch(THING, nameOf(thing('cloud', 'a')), new RecordingWatcher(), nowMs);
    flush();
    await after(250_000);
    const tries = dials.length;
    await after(100_000);
    t.equal(dials.length, tries, 'the same token is now tried every 5 min only');
    writeFileSync(join(directory, 'token'), 'new');
    await after(6_000);
    t.ok(dials.length > tries, 'a new one is tried at once');
  },
);

t.test('a credentials change of a source that the map does not have is ignored', (t) => {
  const federation = new Federation({
    map: PLAIN,
    nodeFor: () => new Uint8Array(),
    bounds: DEFAULT_RESOLUTION,
    maxResourcesPerResponse: 100,
    random: () => 0.5,
  });
  federation.handleCredentialsChanged('gone', 1_000);
  t.strictSame(federation.flush(1_000), []);
  t.end();
});
