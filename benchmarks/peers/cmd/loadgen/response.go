package main

import (
	"bytes"
	"errors"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"tributary.dev/benchmarks/peers/internal/catalogue"
)

var errMalformed = errors.New("malformed response")

// entry is one resource of a response; the slices point into the message.
type entry struct {
	name, version []byte
	made          int64
	sequence      uint32
	origin        byte
}

// envelope is what an ACK repeats of a response; the slices point into the message.
type envelope struct{ nonce, version []byte }

// walkDelta reads the envelope of a DeltaDiscoveryResponse, and of a resource only its name, its
// version and the marker in its body.
func walkDelta(message []byte, onResource func(entry), onRemoved func(name []byte)) (envelope, error) {
	var read envelope
	err := walkFields(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 2:
			found, err := readResource(value)
			if err != nil {
				return err
			}
			onResource(found)
		case 5:
			read.nonce = value
		case 6:
			onRemoved(value)
		}
		return nil
	})
	return read, err
}

// walkSotw does the same for a DiscoveryResponse, whose resources have no version of their own.
func walkSotw(message []byte, onResource func(entry)) (envelope, error) {
	var read envelope
	err := walkFields(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			read.version = value
		case 2:
			found, err := readAny(value)
			if err != nil {
				return err
			}
			onResource(found)
		case 5:
			read.nonce = value
		}
		return nil
	})
	return read, err
}

// readAny reads an assignment in an Any: its first field is its name.
func readAny(message []byte) (entry, error) {
	var found entry
	err := walkFields(message, func(number protowire.Number, value []byte) error {
		if number != 2 {
			return nil
		}
		if err := found.readMarker(value); err != nil {
			return err
		}
		return walkFields(value, func(number protowire.Number, field []byte) error {
			if number == 1 {
				found.name = field
			}
			return nil
		})
	})
	return found, err
}

func readResource(message []byte) (entry, error) {
	var found entry
	err := walkFields(message, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			found.version = value
		case 3:
			found.name = value
		case 2:
			return found.readMarker(value)
		}
		return nil
	})
	return found, err
}

func (found *entry) readMarker(body []byte) error {
	at := bytes.Index(body, []byte(catalogue.MarkerPrefix))
	if at < 0 || at+catalogue.MarkerLength > len(body) {
		return errMalformed
	}
	digits := body[at+len(catalogue.MarkerPrefix) : at+catalogue.MarkerLength]
	made, err := strconv.ParseInt(string(digits[:16]), 16, 64)
	if err != nil {
		return err
	}
	sequence, err := strconv.ParseUint(string(digits[16:24]), 16, 32)
	if err != nil {
		return err
	}
	found.made, found.sequence, found.origin = made, uint32(sequence), digits[24]
	return nil
}

// walkFields calls `visit` for each length-delimited field and skips the others.
func walkFields(message []byte, visit func(protowire.Number, []byte) error) error {
	for len(message) > 0 {
		number, kind, tagLength := protowire.ConsumeTag(message)
		if tagLength < 0 {
			return errMalformed
		}
		message = message[tagLength:]
		if kind != protowire.BytesType {
			length := protowire.ConsumeFieldValue(number, kind, message)
			if length < 0 {
				return errMalformed
			}
			message = message[length:]
			continue
		}
		value, length := protowire.ConsumeBytes(message)
		if length < 0 {
			return errMalformed
		}
		if err := visit(number, value); err != nil {
			return err
		}
		message = message[length:]
	}
	return nil
}

// nameIndex is catalogue.Index without an allocation.
func nameIndex(name []byte) (int, bool) {
	if len(name) < 7 || name[len(name)-7] != 'r' {
		return 0, false
	}
	index := 0
	for _, digit := range name[len(name)-6:] {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		index = index*10 + int(digit-'0')
	}
	return index, true
}
