package series

// Points returns the points of a scope.
func (b *Block) Points(scope string) Points {
	out := Points{Start: b.start, Step: b.resolution.Step, All: make([]Point, 0, len(b.scopes[scope]))}
	for i := range b.scopes[scope] {
		out.All = append(out.All, b.scopes[scope][i].point())
	}
	return out
}
