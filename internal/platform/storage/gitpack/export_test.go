package gitpack

// Len returns the number of objects.
func (o *Objects) Len() int { return len(o.list) }
