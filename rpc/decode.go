package rpc

import (
	"encoding/json"
	"errors"
)

// decode fills v as far as data allows. A field of an unexpected type stays at
// its zero value: encoding/json goes on after such a field and reports it at the
// end, and a new shape of one field must not cost us the message (the turn would
// never end). Callers check the fields they cannot do without.
func decode(data []byte, v any) error {
	if len(data) == 0 {
		return nil
	}
	err := json.Unmarshal(data, v)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}
