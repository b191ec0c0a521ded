package task

// Parse is written below.
func Parse(stem string, raw []byte, key Key, policy Policy) (Task, error) {
	return Task{}, &Rejection{}
}
