package blob

// Pool sets the limits of the pool of resources.
func Pool(l PoolLimits) Option { return func(s *Store) { s.pool = l } }
