"""Clusters: what tells them apart, and centres found privately.

cluster_histograms   ClusterHistograms: attributes chosen privately, then their histograms
counting             what is counted for it: cluster × value tables, and the histograms that were chosen
scores               how good a choice of attributes is, in integers, and how far one record moves that
private_kmeans       PrivateKMeans: a clustering from the same budget
iteration            one iteration of it: what is asked for given centres, and the means that come back
starts               where centres start, and start again when nobody is near
centres              the space that centres live in, and the released centres
results, plots       the released histograms, in numbers, sentences and pictures
"""
