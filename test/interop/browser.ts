/** Real Chromium, as `scripts/provision.mjs` unpacks it. */
import { readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { chromium, type Browser } from 'playwright-core';
import { peerPath } from './peers/provisioned.js';

/** The caller closes it. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = peerPath('chromium');
  return chromium.launch({
    executablePath,
    // The sandbox needs a user other than root, or user namespaces: containers have neither.
    args: ['--no-sandbox', '--disable-gpu'],
    env: {
      ...(process.env as Record<string, string>),
      LD_LIBRARY_PATH: librariesOf(executablePath),
    },
  });
}

/** The folders of the libraries that came with it. @param executable `…/usr/lib/chromium/chromium` */
function librariesOf(executable: string): string {
  const folder = dirname(dirname(executable));
  return readdirSync(folder)
    .filter((name) => name.endsWith('-linux-gnu'))
    .flatMap((name) => [join(folder, name), join(folder, name, 'pulseaudio')])
    .join(':');
}
