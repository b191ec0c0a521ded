package control

// CloseSocket takes the socket away from a server.
func CloseSocket(s *Server) { _ = s.socket.Close() }
