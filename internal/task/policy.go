package task

import "fmt"

// Policy says how much proof the trusted full scan needs.
type Policy string

const (
	// PolicyAuto is PolicyLayout where an HMAC key exists, else PolicyAccept.
	PolicyAuto Policy = "auto"
	// PolicyAccept trusts the layout marker alone. It is right for gateways
	// that never stamp, which are all standalone ones.
	PolicyAccept Policy = "accept"
	// PolicyLayout trusts the layout marker in a verified file only; all
	// other files still run, read by the strict reader.
	PolicyLayout Policy = "layout"
	// PolicyStrict runs verified files only.
	PolicyStrict Policy = "strict"
)

// ParsePolicy reads the configuration's word.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case PolicyAuto, PolicyAccept, PolicyLayout, PolicyStrict:
		return p, nil
	default:
		return "", fmt.Errorf("read envelope policy %q: want auto, accept, layout or strict", s)
	}
}

// Resolve turns PolicyAuto (and "") into the policy in force. keyExists is
// whether there is a key file at all: a broken one means that somebody here
// stamps, so trust must not fall back to the marker alone.
func (p Policy) Resolve(keyExists bool) Policy {
	switch p {
	case PolicyAccept, PolicyLayout, PolicyStrict:
		return p
	case PolicyAuto:
	}
	if keyExists {
		return PolicyLayout
	}
	return PolicyAccept
}
