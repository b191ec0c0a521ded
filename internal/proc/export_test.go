package proc

// InnerGuard is the guard that started the child.
func (p *Process) InnerGuard() Identity { return p.inner }
