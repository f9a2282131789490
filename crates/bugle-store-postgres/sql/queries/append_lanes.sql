-- Where the guard is the head. A lane that somebody else trims meanwhile is passed by, see is_free in append.rs.
{append_heads}
