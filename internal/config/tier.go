package config

// tiers settles [tiers.*]. What a tier may do at all is not configurable; this
// only makes it less, but for read, which is checked against every directory
// of ours.
func (s *settler) tiers() {
	s.config.Tiers = map[string]Tier{}
	t := &s.doc.keys.Tiers
	private := s.private()
	for _, tier := range []struct {
		name string
		keys *tierKeys
	}{{TierTeam, &t.Team}, {TierGuest, &t.Guest}, {TierAmbient, &t.Ambient}} {
		prefix := "tiers." + tier.name + "."
		k := tier.keys
		var out Tier

		out.Enabled = tierKey(s, prefix, "enabled", true, k.Enabled)
		read, f := tierFound(s, prefix, "read", nil, k.Read)
		for _, path := range read {
			path = s.absolute(f, path, s.base(f))
			for _, p := range private {
				if path != "" && p.path != "" && overlap(realPath(path), realPath(p.path)) {
					s.fail(f, "tier %s must not read %s: it is, contains or lies in %s (%s)", tier.name, path, p.what, p.path)
					break
				}
			}
			out.Read = append(out.Read, path)
		}
		s.note(f, prefix+"read", out.Read)
		out.Model = tierKey(s, prefix, "model", "", k.Model)
		out.TurnTimeout = tierKey(s, prefix, "turn_timeout", Duration{DefaultTierTurnTimeout}, k.TurnTimeout).Duration
		if out.TurnTimeout <= 0 {
			s.fail(s.inFile(prefix+"turn_timeout", "turn_timeout"), "turn_timeout must be longer than nothing")
		}
		out.MaxTurns = tierKey(s, prefix, "max_turns", 0, k.MaxTurns)
		if out.MaxTurns < 0 {
			s.fail(s.inFile(prefix+"max_turns", "max_turns"), "max_turns is %d; 0 is no limit of its own, enabled = false is none at all", out.MaxTurns)
		}
		out.Rate = tierKey(s, prefix, "rate", Rate{}, k.Rate)
		s.config.Tiers[tier.name] = out
	}
}

func tierFound[T any](s *settler, prefix, key string, fallback T, file *T) (T, found) {
	if file == nil {
		return fallback, found{path: prefix + key, key: key, origin: FromDefault}
	}
	return *file, s.inFile(prefix+key, key)
}

func tierKey[T any](s *settler, prefix, key string, fallback T, file *T) T {
	value, f := tierFound(s, prefix, key, fallback, file)
	s.note(f, prefix+key, value)
	return value
}
