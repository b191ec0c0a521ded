package model

import "time"

// Reply is what one request gets back. The zero value is a completed response
// without any message.
type Reply struct {
	// Commentary is a message of phase "commentary" before everything else.
	Commentary string
	// Calls are the tools the model asks for; codex runs them and asks again.
	Calls []Call
	// Text is the final answer; "" sends none.
	Text string
	// Pieces is the number of deltas the text comes in; 0 means one.
	Pieces int
	// Step is the pause before each piece.
	Step time.Duration
	// Status, when not 0 or 200, answers with this HTTP status and Body.
	Status int
	// Body is the text of such an answer, sent as application/json.
	Body string
	// Failure ends the stream with response.failed.
	Failure *Failure
	// Cut ends the stream in the middle of the answer.
	Cut bool
	// Stall sends response.created and then nothing until the client goes.
	Stall bool
	// StallHeaders sends nothing at all until the client goes.
	StallHeaders bool
}

// Call is one tool call. Custom calls carry free text, others JSON.
type Call struct {
	Name      string
	Arguments string
	Custom    bool
}

// Failure is the error of a response.failed event.
type Failure struct{ Code, Message string }
