package blob

// OpenWith is Open with limits of the pool of resources.
func OpenWith(dir string, l PoolLimits) (*Files, error) { return open(dir, l) }
