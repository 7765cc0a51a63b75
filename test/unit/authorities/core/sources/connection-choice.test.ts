import t from 'tap';
import {
  chooseConnection,
  hasRoomFor,
  makesDoubtful,
  capacityOf,
  type ConnectionRoom,
} from '../../../../../authorities/core/sources/connection-choice.js';

const connection = (reservedStreams: number, peerMaxStreams?: number): ConnectionRoom => ({
  reservedStreams,
  peerMaxStreams,
});

t.test(
  'a connection has room for 99 streams beside its probe, or for as many as the peer allows',
  (t) => {
    t.equal(capacityOf({ peerMaxStreams: undefined }), 99);
    t.equal(capacityOf({ peerMaxStreams: 2 ** 32 - 1 }), 99);
    t.equal(capacityOf({ peerMaxStreams: 100 }), 99);
    t.equal(capacityOf({ peerMaxStreams: 10 }), 9);
    t.equal(capacityOf({ peerMaxStreams: 0 }), 1);
    t.end();
  },
);

t.test(
  'a stream takes the fullest connection that has room, so that the emptiest can close',
  (t) => {
    const [full, emptier, fuller] = [connection(98), connection(10), connection(97)];
    t.equal(chooseConnection([full, emptier, fuller], 2), fuller);
    t.equal(chooseConnection([full, fuller, emptier], 2), fuller);
    t.equal(chooseConnection([connection(8, 10)], 2), undefined, 'another connection is needed');
    t.equal(chooseConnection<ConnectionRoom>([], 2), undefined);
    t.end();
  },
);

t.test('a connection without users takes any, however few streams the peer allows', (t) => {
  t.equal(hasRoomFor(connection(0, 1), 20), true);
  t.equal(hasRoomFor(connection(2, 1), 2), false);
  t.end();
});

t.test('a stream that ends without any message makes its connection doubtful', (t) => {
  const end = { hadMessage: false, othersHadMessage: false, isRefusal: false };
  t.equal(makesDoubtful(end), true);
  t.equal(makesDoubtful({ ...end, hadMessage: true }), false, 'a stream that worked');
  t.equal(makesDoubtful({ ...end, othersHadMessage: true }), false, 'the connection works');
  t.equal(makesDoubtful({ ...end, isRefusal: true }), false, 'the source refuses this client');
  t.end();
});
