/**
 * Goal: an operator can read the page of the gateway in a real browser, whatever clients put into it.
 * Method: Chromium and a gateway in this process.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import t, { type Test } from 'tap';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { httpRequest } from '../support/http.js';
import { startBrowser } from './browser.js';
import { shownClient, startPageGateway, TOKEN, WEB, type PageGateway } from './page-gateway.js';
import { skipWithout } from './peers/provisioned.js';

t.setTimeout(120_000);

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const HOSTILE = '<img src=x onerror="document.title=\'run\'"><script>document.title="run"</script>';

let browser: Browser;
let gateway: PageGateway;

async function open(t: Test, path = '/', options: BrowserContextOptions = {}) {
  const context = await browser.newContext(options);
  t.teardown(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const problems: string[] = [];
  const requests: string[] = [];
  page.on('pageerror', (error) => problems.push(error.message));
  page.on('console', (line) => {
    if (line.type() === 'error') problems.push(line.text());
  });
  page.on('request', (request) => requests.push(request.url()));
  await page.goto(gateway.url + path, { waitUntil: 'domcontentloaded' });
  return { page, problems, requests };
}

/** The rules that the page breaks, with the elements. */
async function violations(page: Page): Promise<readonly string[]> {
  await page.evaluate(AXE);
  const found = await page.evaluate(`axe.run().then(({ violations }) =>
    violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => id + ': ' + html)))`);
  return found as readonly string[];
}

t.test('the page in Chromium', { skip: skipWithout('chromium') }, async (t) => {
  [browser, gateway] = await Promise.all([startBrowser(), startPageGateway()]);
  t.teardown(async () => {
    await browser.close();
    await gateway.stop();
  });

  for (const colorScheme of ['light', 'dark'] as const) {
    t.test(`axe finds nothing on the ${colorScheme} page (WCAG)`, async (t) => {
      gateway.showClients([shownClient('node-1', 'no such filter'), shownClient('node-2')]);
      const path = `/?name=${encodeURIComponent(WEB)}`;
      const { page, problems } = await open(t, path, { colorScheme });
      t.same(await violations(page), []);
      const back = await page.evaluate('getComputedStyle(document.body).backgroundColor');
      t.equal(back, colorScheme === 'dark' ? 'rgb(13, 17, 23)' : 'rgb(255, 255, 255)');
      t.same(problems, [], 'no error, and nothing that the Content-Security-Policy refuses');
    });
  }

  t.test('the page requests nothing but itself and its events', async (t) => {
    const { page, requests } = await open(t);
    await page.getByText('Live', { exact: true }).waitFor();
    const http = requests.filter((url) => !url.startsWith('data:'));
    t.same(http, [`${gateway.url}/`, `${gateway.url}/events`]);
  });

  t.test(
    'without JavaScript the page has all tables, the search and the pages of clients',
    async (t) => {
      gateway.showClients(Array.from({ length: 51 }, (_, at) => shownClient(`node-${at}`)));
      const { page } = await open(t, '/', { javaScriptEnabled: false });
      for (const name of ['Authorities', 'Sources', 'Clients']) {
        t.ok(await page.getByRole('table', { name }).locator('tbody tr').count(), name);
      }
      await page.getByRole('link', { name: 'Next' }).click();
      await page.getByText('page 2 of 2').waitFor();
      await page.getByRole('textbox', { name: 'Name', exact: true }).fill(WEB);
      await page.getByRole('button', { name: 'Explain' }).click();
      const path = page.getByRole('img', { name: /cloud\.test.*source one, live.*version/ });
      await path.waitFor();
      t.match(await page.getByRole('table', { name: 'Sources of the name' }).innerText(), /in use/);
    },
  );

  t.test('a page shows a switch as it happens, and the new source', async (t) => {
    gateway.showClients([]);
    const { page, problems } = await open(t);
    await page.getByText('Live', { exact: true }).waitFor();
    await gateway.force('two');
    await page.getByText('Live: a group has switched').waitFor();
    await page.locator('#switches li', { hasText: 'one → two' }).first().waitFor();
    const row = page.locator('#authorities tr', { hasText: 'cloud.test' }).first();
    await row.getByText('forced').first().waitFor();
    t.same(problems, []);
    await gateway.force('one');
    await page.locator('#switches li', { hasText: 'two → one' }).first().waitFor();
  });

  t.test('a lost source has its last error and its next attempt', async (t) => {
    const { page } = await open(t);
    const cells = page.locator('#sources tr', { hasText: 'gone' }).locator('td');
    await cells.nth(1).getByText('not live').waitFor();
    await cells.nth(3).getByText('ECONNREFUSED').waitFor();
    await cells.nth(4).locator('time').waitFor();
    await page.locator('#health', { hasText: 'lost.test' }).waitFor();
  });

  t.test('10,000 clients come in pages of 50, and the one that rejects is found', async (t) => {
    const clients = Array.from({ length: 10_000 }, (_, at) =>
      shownClient(`node-${at}`, at === 9_999 ? 'no such filter' : undefined),
    );
    gateway.showClients(clients);
    const { page } = await open(t);
    const rows = page.getByRole('table', { name: 'Clients' }).locator('tbody tr');
    t.equal(await rows.count(), 50);
    await page.getByText('page 1 of 200').waitFor();
    await page.getByRole('link', { name: '1 reject a resource' }).click();
    await page.getByText('page 1 of 1', { exact: false }).waitFor();
    t.match(await rows.innerText(), /node-9999[^]*no such filter/);
  });

  t.test('a focused link keeps the focus when its section changes', async (t) => {
    gateway.showClients([shownClient('node-1')]);
    const { page } = await open(t);
    const link = page.getByRole('link', { name: /reject a resource/ });
    await link.focus();
    gateway.showClients([shownClient('node-1'), shownClient('node-2')]);
    await page.locator('#clients', { hasText: '2 clients' }).waitFor();
    t.equal(await page.evaluate('document.activeElement.textContent'), '0 reject a resource');
  });

  t.test(
    'text of a client is only shown, never run: node, reason and name in the search',
    async (t) => {
      gateway.showClients([shownClient(HOSTILE, HOSTILE)]);
      const { page, problems } = await open(t, `/?name=${encodeURIComponent(`"${HOSTILE}`)}`);
      await page.getByText('Live', { exact: true }).waitFor();
      t.match(
        await page.getByRole('table', { name: 'Clients' }).innerText(),
        '<img src=x onerror=',
      );
      t.equal(await page.locator('main img:not([role])').count(), 0);
      t.equal(await page.title(), 'Tributary');
      t.same(problems, []);
    },
  );

  t.test(
    'with admin.token_file a form signs in; its cookie reads and orders nothing',
    async (t) => {
      const closed = await startPageGateway({ token: true });
      t.teardown(() => closed.stop());
      const context = await browser.newContext();
      t.teardown(() => context.close());
      const page = await context.newPage();
      await page.goto(closed.url);
      t.same(await violations(page), []);
      const field = page.getByLabel('Admin token', { exact: false });
      await field.fill('another');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('This is not the admin token.').waitFor();
      await field.fill(TOKEN);
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByText('Live', { exact: true }).waitFor();
      const [cookie] = await context.cookies();
      t.match(cookie, { httpOnly: true, sameSite: 'Strict' });
      t.notMatch(cookie?.value, TOKEN);
      const order = await page.evaluate(
        `fetch('/logging?level=info', { method: 'POST' }).then((r) => r.status)`,
      );
      t.equal(order, 401, 'an order needs the token itself');
      t.equal((await httpRequest(`${closed.url}/events`)).status, 401);
    },
  );
});
