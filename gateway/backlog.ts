/**
 * Connections that the kernel keeps until the gateway accepts them. With the 511 of Node, the first attempt of a further client
 * is lost, and its second one comes a second later: in a wave of clients, or when a probe comes behind 1,000
 * connections. The system bounds it, too (`net.core.somaxconn`). A count.
 */
export const BACKLOG = 4_096;
