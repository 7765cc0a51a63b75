/** `npm run screenshots`: takes the screenshot of the page in docs/OPERATIONS.md with the Chromium of the interop tests. */
import process from 'node:process';
import { startBrowser } from '../build/test/interop/browser.js';
import { shownClient, startPageGateway, WEB } from '../build/test/interop/page-gateway.js';

const gateway = await startPageGateway();
const browser = await startBrowser();
try {
  gateway.showClients([
    shownClient('edge-1'),
    shownClient('edge-2', 'cluster edge/web: unknown transport socket'),
    shownClient('edge-3'),
  ]);
  const page = await browser.newPage({ viewport: { width: 1180, height: 900 } });
  await gateway.force('two');
  await page.goto(`${gateway.url}/?name=${encodeURIComponent(WEB)}`);
  await page.getByText('Live', { exact: true }).waitFor();
  await page.screenshot({ path: 'docs/images/page.png', fullPage: true });
} finally {
  await browser.close();
  await gateway.stop();
}
process.exit(0);
