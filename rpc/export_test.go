package rpc

import "reflect"

// Doors for the tests in package rpc_test.

// DoorDecodeInto is what fills the library's message.
var DoorDecodeInto = decodeInto

// DoorSketch reads the two ends of a line.
func DoorSketch(head, tail []byte) (method, id, threadID, turnID string, isReply bool) {
	s := sketchOf(head, tail)
	return s.method, string(s.id), s.threadID, s.turnID, s.isReply
}

// DoorPending counts the requests that the library waits for.
func (c *Client) DoorPending() int {
	return reflect.ValueOf(c.conn).Elem().FieldByName("pending").Len()
}

// DoorUnwritten counts the lines that wait for the pipe.
func (c *Client) DoorUnwritten() int {
	c.stream.outgoing.mu.Lock()
	defer c.stream.outgoing.mu.Unlock()
	return len(c.stream.outgoing.items)
}

// DoorInputBroken is closed when nothing can be written any more.
func (c *Client) DoorInputBroken() <-chan struct{} { return c.stream.inputBroken }
