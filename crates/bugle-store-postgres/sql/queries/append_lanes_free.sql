-- Where some guards are free: several servers may push to a lane at the same time, and those who had to wait are served all the same.
{by_key}{append_heads}
